//! Names and descriptions that several elements share, each declared once.

/// Declares constants of names and descriptions.
macro_rules! named {
    ($($module:ident: $about:literal { $($constant:ident = $name:literal: $doc:literal,)+ })+) => {
        $(
            #[doc = $about]
            pub(crate) mod $module {
                use scalebricks_graph::spec::NameAndDoc;

                $(#[doc = $doc] pub(crate) const $constant: NameAndDoc = NameAndDoc { name: $name, doc: $doc };)+
            }
        )+
    };
}

named! {
    drops: "Drop reasons." {
        TOO_SHORT = "too_short": "The packet is shorter than the element requires.",
        OVER_LENGTH = "over_length": "The packet is, or would become, longer than allowed.",
        LONG_FRAME = "too_long": "A frame of a capture is longer than a buffer.",
        NO_HEADER = "no_ip_header": "The packet has no complete IPv4 header.",
        BAD_VERSION = "bad_version": "The IP version is not 4.",
        BAD_HEADER_LENGTH = "bad_header_length": "The header length is below 20 bytes.",
        BAD_LENGTH = "bad_length": "The packet is shorter than its header says, or longer than IPv4 allows.",
        BAD_CHECKSUM = "bad_checksum": "The header checksum is wrong.",
        BAD_SOURCE = "bad_source": "The source address is invalid.",
        MALFORMED = "malformed": "Headers or options contradict themselves.",
        LATER_FRAGMENT = "later_fragment": "The packet is a fragment other than the first, which has no ports.",
        NOT_UNICAST = "not_unicast": "The source or destination is not a single host, or the packet arrived as link broadcast or multicast.",
        LINK_BROADCAST = "link_broadcast": "The packet arrived as link broadcast or multicast.",
        NO_MATCH = "no_match": "No pattern or filter matches the packet.",
        NO_HEADROOM = "no_headroom": "The packet's buffer does not have enough headroom.",
        NO_ROOM = "no_room": "The answer does not fit the packet's buffer.",
        NO_ECHO_REQUEST = "no_echo_request": "The packet is not a complete echo request.",
        BAD_ICMP_CHECKSUM = "bad_icmp_checksum": "The request's ICMP checksum is wrong.",
        ABOUT_ERROR = "about_icmp_error": "The packet is an ICMP error, or ICMP of an unknown type.",
        BAD_ADDRESS = "bad_address": "The source or destination is one of `BADADDRS`.",
        RATE_LIMITED = "rate_limited": "The rate limit of errors was reached.",
        NO_ARP_REPLY = "no_reply": "The packet at input 1 is not an ARP reply over Ethernet from a single host.",
        NO_ADVERTISEMENT = "no_advertisement": "The packet at input 1 is not a neighbour advertisement over Ethernet with the address of a single host.",
        NO_HEADER6 = "no_ip6_header": "The packet has no complete IPv6 header.",
        BAD_VERSION6 = "bad_ip6_version": "The IP version is not 6.",
        BAD_LENGTH6 = "bad_ip6_length": "The packet is shorter than its header says.",
        NO_ROOM_FOR_ESP = "no_room_for_esp": "The packet's buffer has not enough room for the headers and trailer of ESP.",
        QUEUE_FULL = "queue_full": "The maximum number of packets was waiting.",
        NO_SA = "no_sa": "No security association is for the packet.",
        SA_EXPIRED = "sa_expired": "The hard lifetime of the packet's security association is over.",
        NO_NEIGHBOUR = "no_neighbour": "No link that is up leads to the output node.",
        MALFORMED_IP = "cut_or_malformed_ip": "The IP header is malformed, or the packet is cut.",
        IP_CHECKSUM = "ip_checksum": "The IPv4 header's checksum is wrong.",
        FRAGMENT_HELD = "fragment_held": "A fragment that waits for others.",
        FRAGMENT_REFUSED = "fragment_refused": "A fragment that overlaps others, or exceeds a limit.",
        WHOLE_TOO_LONG = "whole_packet_too_long": "The whole packet does not fit a buffer.",
        MALFORMED_TRANSPORT = "malformed_transport": "The header behind the IP header is malformed or cut.",
        TRANSPORT_CHECKSUM = "transport_checksum": "The checksum behind the IP header is wrong.",
        SEGMENT_REFUSED = "segment_refused": "A TCP segment that the connection's state refuses.",
        UNRELATED_ERROR = "unrelated_icmp_error": "An ICMP error about no known flow.",
        FLOWS_FULL = "flows_full": "All flows are established, and none more fits.",
        SPLIT_HORIZON = "split_horizon": "It could only leave by the port it arrived at, or by one of the same group.",
    }
    counters: "Counters." {
        MADE = "made": "Packets made.",
        COPIES = "copies": "Copies made.",
        NOT_COPIED = "not_copied": "Copies not made, because no slot or buffer was free or the packet is too long.",
        REPLIES = "replies": "Replies made.",
        NO_BUFFER = "no_buffer": "Turns in which no buffer was free.",
        NO_BUFFER_FOR_DATA = "no_buffer": "Turns in which no buffer was free, or the data did not fit one.",
        SA_AGEING = "sa_ageing": "Security associations whose soft lifetime is over: a level.",
        DIRECT = "direct": "Frames sent straight to their output node.",
        SPREAD = "spread": "Frames sent over an intermediate node.",
        OVER_BUDGET = "over_budget": "Frames for which no way had room; they took the least loaded.",
        NOT_PRINTED = "not_printed": "Lines that could not be written.",
    }
    handlers: "Handlers." {
        COUNT = "count": "Packets since the last reset.",
        ACTIVE = "active": "Whether it is active.",
        SET_ACTIVE = "active": "Starts or stops it.",
        PRINTS = "active": "Whether anything is printed.",
        FILENAME = "filename": "The file.",
        PAINT = "color": "The paint.",
        SRC = "src": "The source.",
        SET_SRC = "src": "Sets the source.",
        DST = "dst": "The destination.",
        SET_DST = "dst": "Sets the destination.",
        SAS = "sas": "The security associations, one per line: name, SPI, suite, packets, bytes, sequence number, state.",
        DOWN = "down": "The neighbours whose link is down.",
        SET_DOWN = "down": "Marks a link as down: `N`, the link to neighbour N; `N M`, the link from node N to node M.",
        SET_UP = "up": "Marks a link as up.",
        PROGRAM = "program": "The comparisons, one per line, and where each leads.",
    }
}
