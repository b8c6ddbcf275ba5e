"""The cuckoo table and hashes of keys, compared with a dict and with CPython's own SipHash-1-3."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scalebricks
from scalebricks import Cuckoo, hash_keys

SEED = (1, 2)


@pytest.mark.parametrize("width", [1, 7, 8, 15, 16, 17, 40, 63])
def test_hashes_are_siphash_1_3(random, width):
    keys = random.integers(0, 256, (20, width), dtype=np.uint8)
    program = "import sys; print(sys.hash_info.algorithm, *(hash(bytes.fromhex(key)) for key in sys.argv[1:]))"
    command = [sys.executable, "-c", program, *(key.tobytes().hex() for key in keys)]
    said = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
    algorithm, *wanted = said.stdout.split()
    if algorithm != "siphash13":
        pytest.skip(f"this Python hashes by {algorithm}")
    assert hash_keys(keys, (0, 0)).tolist() == [int(word) % 2**64 for word in wanted]
    if width == 8:
        assert hash_keys(keys.view(np.uint64)[:, 0], (0, 0)).tolist() == [int(word) % 2**64 for word in wanted]
    assert not np.array_equal(hash_keys(keys, (0, 1)), hash_keys(keys, (0, 0)))


@pytest.mark.parametrize("words", [2, 5])
def test_cuckoo_is_a_dict(random, words):
    keys = random.integers(0, 1 << 64, (4000, words), dtype=np.uint64)
    table, oracle = Cuckoo(100, seed=SEED, key_words=words), {}
    for _ in range(50):
        picked = random.choice(len(keys), 150, replace=False)
        here = np.array([keys[at].tobytes() in oracle for at in picked])
        values = random.integers(0, 1 << 64, (150, 2), dtype=np.uint64)
        gone = here & (random.random(150) < 0.3)
        changed = here & ~gone
        table.remove(keys[picked[gone]])
        table.update(keys[picked[changed]], values[changed])
        table.insert(keys[picked[~here]], values[~here])
        for at in picked[gone]:
            del oracle[keys[at].tobytes()]
        oracle.update((keys[at].tobytes(), value.tolist()) for at, value in zip(picked[~gone], values[~gone]))
        found_values, found = table.lookup(keys)
        assert found.tolist() == [key.tobytes() in oracle for key in keys]
        assert found_values.tolist() == [oracle.get(key.tobytes(), [0, 0]) for key in keys]
    stored_keys, stored_values = table.items()
    assert {key.tobytes(): value.tolist() for key, value in zip(stored_keys, stored_values)} == oracle
    assert len(table) == len(oracle) and table.table_bytes > len(table) * 8 * (words + 2)


def test_cuckoo_refuses(random):
    keys = random.integers(0, 1 << 64, (3000, 2), dtype=np.uint64)
    table = Cuckoo(200, seed=SEED, grows=False)
    with pytest.raises(scalebricks.TableFull, match=r"key (\d+) of the run: FIB full"):
        table.insert(keys, keys)
    inserted = len(table)
    assert 200 <= inserted < 3000
    assert table.lookup(keys)[1].tolist() == [True] * inserted + [False] * (3000 - inserted)
    twice = random.integers(0, 1 << 64, (71, 2), dtype=np.uint64)
    twice[70] = twice[0]
    with pytest.raises(ValueError, match="key 70 of the run: the key is already"):
        Cuckoo(100, seed=SEED).insert(twice, twice)
    with pytest.raises(KeyError, match="key 1 of the run: the key is not"):
        table.remove(keys[[0, 2999]])
    with pytest.raises(KeyError, match="key 0 of the run"):
        table.update(keys[2999:], keys[2999:])
    with pytest.raises(ValueError, match="all-zero key"):
        table.insert(np.zeros((1, 2), np.uint64), keys[:1])
    with pytest.raises(ValueError, match=r"shape \(n, 2\), not \[3000, 1\]"):
        table.lookup(np.ascontiguousarray(keys[:, :1]))
    with pytest.raises(ValueError, match="key_words is 3"):
        Cuckoo(10, seed=SEED, key_words=3)

