#!/usr/bin/env python3
"""Encrypts and decrypts ESP packets by scapy, as a peer in tests.

Reads one task per line from standard input, and answers with one line of hexadecimal digits:

    open SUITE KEYS SPI ESN_HIGH UDP SRC DST OUTER_PACKET    -> the inner packet, or "error: WHY"
    seal SUITE KEYS SPI ESN_HIGH UDP SRC DST INNER_PACKET SEQUENCE_NUMBER    -> the outer packet

SUITE is gcm or cbc; KEYS is one key, or two with a comma; ESN_HIGH the high bits of the sequence number or -; UDP 0 or 1.
Exits with 77 if there is no scapy 2.6.
"""

import sys

try:
    import scapy
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation
    is_there = tuple(int(part) for part in scapy.__version__.split(".")[:2]) >= (2, 6)
except ImportError:
    is_there = False
if not is_there:
    # Earlier versions compute a wrong integrity value with extended sequence numbers, and a wrong length of UDP.
    print("skipped: no scapy 2.6 for python3 (install with: pip install 'scapy>=2.6' cryptography)")
    sys.exit(77)


def association(suite, keys, spi, high, udp, src, dst, sequence=1):
    keys = [bytes.fromhex(key) for key in keys.split(",")]
    if suite == "gcm":
        algorithms = {"crypt_algo": "AES-GCM", "crypt_key": keys[0]}
    else:
        algorithms = {"crypt_algo": "AES-CBC", "crypt_key": keys[0], "auth_algo": "HMAC-SHA1-96", "auth_key": keys[1]}
    if high != "-":
        algorithms |= {"esn_en": True, "esn": int(high)}
    if udp == "1":
        algorithms["nat_t_header"] = UDP(sport=4500, dport=4500)
    tunnel = IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)
    return SecurityAssociation(ESP, spi=int(spi, 0), seq_num=sequence, tunnel_header=tunnel, **algorithms)


def version(packet):
    return IPv6(packet) if packet[0] >> 4 == 6 else IP(packet)


def answer(task, suite, keys, spi, high, udp, src, dst, packet, sequence="1"):
    packet = version(bytes.fromhex(packet))
    sa = association(suite, keys, spi, high, udp, src, dst, int(sequence))
    return bytes(sa.decrypt(packet) if task == "open" else sa.encrypt(packet)).hex()


for line in sys.stdin:
    try:
        print(answer(*line.split()), flush=True)
    except Exception as error:  # whatever scapy raises is the answer
        print(f"error: {type(error).__name__}: {error}", flush=True)
