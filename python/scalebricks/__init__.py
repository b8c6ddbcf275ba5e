"""Lookup tables for packet processing: SetSep and Othello without keys, cuckoo, longest prefix, DHash.

Keys and values are numpy arrays, which functions use without a copy. While a function works, other threads run.
"""

from ._scalebricks import Cuckoo, DHash, Gap, Lpm, Othello, SetSep, TableFull, __version__, hash_keys

__all__ = ["Cuckoo", "DHash", "Gap", "Lpm", "Othello", "SetSep", "TableFull", "__version__", "hash_keys"]
