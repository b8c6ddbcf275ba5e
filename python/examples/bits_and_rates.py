# %% [markdown]
# # Bits per key and lookup rates
#
# How much memory does a table take per key, and how many keys does one thread look up per second? This example compares
# SetSep, Othello and the exact cuckoo table with a `dict` of Python. Values have two bits: one of four nodes.
#
# Editors that know cells (`# %%`) run this file piece by piece. As a program, it writes `bits.png` and `rates.png` to the
# folder OUT; KEYS is a list of numbers of keys.

# %%
import os
import pathlib
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from scalebricks import Cuckoo, Othello, SetSep, hash_keys

COUNTS = [int(count) for count in os.environ.get("KEYS", "10000,100000,1000000").split(",")]
OUT = pathlib.Path(os.environ.get("OUT", "."))
SEED = (0x0123456789ABCDEF, 0xFEDCBA9876543210)  # a secret in production
BATCH = 1024
LOOKUPS = 1 << 20

# %% [markdown]
# ## Keys
#
# Each key is a flow's addresses and ports: 16 bytes, here two words. SetSep and Othello take a hash of it.


# %%
def flows(count):
    keys = np.zeros((count, 2), np.uint64)
    keys[:, 0] = np.arange(1, count + 1)
    nodes = (np.arange(count) % 4).astype(np.uint8)
    return keys, hash_keys(keys.view(np.uint8), SEED), nodes


# %% [markdown]
# ## Tables
#
# Each entry builds a table, and returns its bits per key and a function that looks up the flows with these indices.


# %%
def setsep(keys, hashes, nodes):
    table = SetSep(hashes, nodes, value_bits=2)
    return table.bits_per_key, lambda at: table.lookup(hashes[at])


def othello(keys, hashes, nodes):
    table = Othello(hashes, nodes.astype(np.uint16), value_bits=2)
    return table.bits_per_key, lambda at: table.lookup(hashes[at])


def cuckoo(keys, hashes, nodes):
    table = Cuckoo(len(keys), seed=SEED)
    values = np.stack([nodes.astype(np.uint64), np.zeros(len(keys), np.uint64)], axis=1)
    table.insert(keys, values)
    return 8 * table.table_bytes / len(keys), lambda at: table.lookup(keys[at])[0][:, 0]


def python_dict(keys, hashes, nodes):
    names = [key.tobytes() for key in keys]
    table = dict(zip(names, nodes.tolist()))
    size = sys.getsizeof(table) + sum(map(sys.getsizeof, names))
    return 8 * size / len(keys), lambda at: [table[names[one]] for one in at.tolist()]


TABLES = {"SetSep": setsep, "Othello": othello, "Cuckoo": cuckoo, "dict": python_dict}

# %% [markdown]
# ## Measure
#
# Lookups go through the flows in an order without pattern, a batch at a time. Answers are compared before anything is
# timed. The rate includes what Python does per batch. A `dict` gets fewer lookups, because it takes longer.

# %%
random = np.random.default_rng(1)
results = {name: [] for name in TABLES}
for count in COUNTS:
    keys, hashes, nodes = flows(count)
    for name, make in TABLES.items():
        bits, look = make(keys, hashes, nodes)
        number = LOOKUPS if name != "dict" else LOOKUPS // 8
        batches = random.integers(0, count, (number // BATCH, BATCH))
        assert all(np.array_equal(look(batch), nodes[batch]) for batch in batches[:100]), name
        began = time.perf_counter()
        for batch in batches:
            look(batch)
        rate = batches.size / (time.perf_counter() - began)
        results[name].append((bits, rate))
        print(f"RESULT table={name} keys={count} bits_per_key={bits:.2f} lookups_per_s={rate:.0f}")

# %% [markdown]
# ## Draw
#
# One colour per table, as in the figures of the documentation, and labels beside the lines.

# %%
COLOURS = {"SetSep": "#0072b2", "Othello": "#d55e00", "Cuckoo": "#009e73", "dict": "#777777"}


def draw(column, label, file):
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, rows in results.items():
        values = [row[column] for row in rows]
        axes.plot(COUNTS, values, marker="o", color=COLOURS[name])
        axes.annotate(name, (COUNTS[-1], values[-1]), (6, 0), textcoords="offset points", va="center", color=COLOURS[name])
    axes.set(xscale="log", yscale="log", xlabel="keys", ylabel=label)
    axes.margins(x=0.15)
    figure.savefig(OUT / file, dpi=120)
    return figure


draw(0, "bits per key", "bits.png")
draw(1, "lookups per second, one thread", "rates.png")
