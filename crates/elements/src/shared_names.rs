//! Names and texts of what several elements declare alike, each once.

/// Declares constants of names and texts.
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
        TOO_SHORT = "too_short": "The packet is shorter than what the element asks of it.",
        OVER_LENGTH = "over_length": "The packet is longer, or would become longer, than it may be.",
        LONG_FRAME = "too_long": "The frame, of a capture, is longer than a buffer.",
        NO_HEADER = "no_ip_header": "There is no whole IPv4 header, or none any more.",
        BAD_VERSION = "bad_version": "The header is not of version 4.",
        BAD_HEADER_LENGTH = "bad_header_length": "The header's length is below 20 bytes.",
        BAD_LENGTH = "bad_length": "The packet is shorter than its header says, or longer than IPv4 allows.",
        BAD_CHECKSUM = "bad_checksum": "The header's checksum is wrong.",
        BAD_SOURCE = "bad_source": "No valid packet has this source.",
        MALFORMED = "malformed": "Headers or options that contradict themselves.",
        LATER_FRAGMENT = "later_fragment": "The packet is a fragment other than the first, which has no ports.",
        NOT_UNICAST = "not_unicast": "The packet came from or went to no single host, or came as broadcast or multicast of its link.",
        LINK_BROADCAST = "link_broadcast": "The packet came as broadcast or multicast of its link.",
        NO_MATCH = "no_match": "No pattern or filter is true of the packet.",
        NO_HEADROOM = "no_headroom": "The packet's buffer has not enough room in front.",
        NO_ROOM = "no_room": "The answer does not fit the packet's buffer.",
        QUEUE_FULL = "queue_full": "As many packets waited as may.",
        SPLIT_HORIZON = "split_horizon": "It would only leave by the port it came by, or by one of the same group.",
    }
    counters: "Counters." {
        MADE = "made": "Packets made.",
        COPIES = "copies": "Copies made.",
        NOT_COPIED = "not_copied": "Copies that were not made: no slot or no buffer was free, or the packet is too long.",
        REPLIES = "replies": "Replies made.",
        NO_BUFFER = "no_buffer": "Turns in which no buffer was free.",
        NO_BUFFER_FOR_DATA = "no_buffer": "Turns in which no buffer was free, or the data does not fit one.",
        NOT_PRINTED = "not_printed": "Lines that could not be written.",
    }
    handlers: "Handlers." {
        COUNT = "count": "Packets since the last reset.",
        ACTIVE = "active": "Whether packets go on.",
        SET_ACTIVE = "active": "Starts it or stops it.",
        PRINTS = "active": "Whether anything is printed.",
        FILENAME = "filename": "The file.",
        PAINT = "color": "The paint.",
        SRC = "src": "The source.",
        SET_SRC = "src": "Sets the source.",
        DST = "dst": "The destination.",
        SET_DST = "dst": "Sets the destination.",
        PROGRAM = "program": "The comparisons made, one a line, and where each leads.",
    }
}
