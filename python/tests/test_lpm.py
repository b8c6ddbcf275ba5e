"""Longest-prefix match, compared with a search through all prefixes by Python's ipaddress."""

import ipaddress

import numpy as np
import pytest
import scalebricks
from scalebricks import Lpm

BITS = {4: 32, 6: 128}
NETWORK = {4: ipaddress.IPv4Network, 6: ipaddress.IPv6Network}


def array(addresses, version):
    """Addresses, given as numbers, as the table takes them."""
    if version == 4:
        return np.array(addresses, np.uint32)
    return np.frombuffer(b"".join(address.to_bytes(16, "big") for address in addresses), np.uint8).reshape(-1, 16)


def number(random, bits):
    return int.from_bytes(random.bytes(bits // 8), "big")


def longest(oracle, address, bits):
    covering = [net for net in oracle if address >> (bits - net.prefixlen) == int(net.network_address) >> (bits - net.prefixlen)]
    return max(covering, key=lambda net: net.prefixlen, default=None)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("root_bits", [8, 16])
def test_routes_come_and_go(random, version, root_bits):
    bits, table, oracle = BITS[version], Lpm(version, root_bits=root_bits), {}
    # Few first bits, so that prefixes cover one another.
    base = [number(random, bits) for _ in range(4)]
    for _ in range(300):
        length = int(random.integers(0, bits + 1))
        near = base[int(random.integers(4))] ^ (number(random, bits) >> int(random.integers(8, bits)))
        net = NETWORK[version]((near >> (bits - length) << (bits - length), length))
        if oracle and random.random() < 0.3:
            gone = list(oracle)[int(random.integers(len(oracle)))]
            assert table.remove(str(gone)) == oracle.pop(gone)
            assert table.get(str(gone)) is None
        hop = int(random.integers(0, 100_000))
        assert table.insert(str(net), hop) == oracle.get(net)
        oracle[net] = hop
        assert table.get(str(net)) == hop
    asked = [one ^ (number(random, bits) >> int(random.integers(1, bits))) for one in base for _ in range(300)]
    asked += [int(net.network_address) for net in oracle] + [int(net.broadcast_address) for net in oracle]
    wanted = [longest(oracle, address, bits) for address in asked]
    assert table.lookup(array(asked, version)).tolist() == [-1 if net is None else oracle[net] for net in wanted]
    assert len(table) == len(oracle)
    assert {NETWORK[version](text): hop for text, hop in table.items()} == oracle
    address = ipaddress.ip_address(array(asked, version)[0].tobytes() if version == 6 else asked[0])
    assert table.longest(str(address)) == (None if wanted[0] is None else (str(wanted[0]), oracle[wanted[0]]))
    assert table.table_bytes > 0


@pytest.mark.parametrize("version", [4, 6])
def test_arrays_of_routes(random, version):
    bits = BITS[version]
    lengths = random.integers(1, 33, 500).astype(np.uint8)
    firsts = [number(random, bits) >> (bits - int(length)) << (bits - int(length)) for length in lengths]
    hops = random.integers(0, 1000, 500).astype(np.uint32)
    table, single = Lpm(version), Lpm(version)
    table.insert_all(array(firsts, version), lengths, hops)
    for first, length, hop in zip(firsts, lengths.tolist(), hops.tolist()):
        single.insert(str(NETWORK[version]((first, length))), hop)
    assert table.items() == single.items() and len(table) > 400


def test_what_is_refused():
    table = Lpm(4, block_bytes=64)
    with pytest.raises(ValueError, match="has bits behind the prefix"):
        table.insert("10.0.0.1/8", 1)
    with pytest.raises(ValueError, match="is no prefix"):
        table.insert("2001:db8::/32", 1)
    with pytest.raises(KeyError, match="no route for 10.0.0.0/8"):
        table.remove("10.0.0.0/8")
    with pytest.raises(ValueError, match="next hop 2147483647 is more than"):
        table.insert("10.0.0.0/8", 2**31 - 1)
    with pytest.raises(OverflowError):
        table.insert("10.0.0.0/8", -1)
    with pytest.raises(scalebricks.TableFull, match="no room for a block"):
        for at in range(20):
            table.insert(f"10.{at}.0.0/24", at)
    with pytest.raises(TypeError, match="addresses must be a numpy array of uint32 with 1 dimension"):
        table.lookup(np.zeros((1, 16), np.uint8))
    with pytest.raises(ValueError, match="version is 5"):
        Lpm(5)
    with pytest.raises(ValueError, match="from 1 to 24"):
        Lpm(4, root_bits=25)
