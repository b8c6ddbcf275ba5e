//! What the slow path counts: every kind of message in and out, every drop, by name.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters of a slow path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct LocalStats {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl LocalStats {
            /// Every counter's name and count, in order of declaration. Names of drops start with `dropped_`.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }

        impl std::ops::AddAssign<&Self> for LocalStats {
            fn add_assign(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// ARP requests, answered or not.
    arp_requests_in,
    /// ARP replies.
    arp_replies_in,
    /// Neighbour solicitations.
    neighbour_solicitations_in,
    /// Neighbour advertisements.
    neighbour_advertisements_in,
    /// ICMP echo requests to own addresses.
    echo_requests_in,
    /// ICMPv6 echo requests to own addresses.
    echo_requests_v6_in,
    /// Other ICMP and ICMPv6 messages to own addresses: errors and replies, which change nothing.
    other_icmp_in,
    /// GTP-U echo requests.
    gtpu_echo_requests_in,
    /// GTP-U echo responses.
    gtpu_echo_responses_in,
    /// GTP-U error indications: a base station does not know a tunnel.
    error_indications_in,
    /// GTP-U supported extension headers notifications.
    extension_notifications_in,
    /// GTP-U end markers.
    end_markers_in,
    /// GTP-U messages of other types.
    other_gtpu_in,
    /// G-PDUs of unknown tunnels.
    unknown_tunnels_in,
    /// Packets to unknown users.
    unknown_users_in,

    /// ARP requests, announcements apart.
    arp_requests_out,
    /// ARP replies.
    arp_replies_out,
    /// ARP announcements.
    arp_announcements_out,
    /// Neighbour solicitations.
    neighbour_solicitations_out,
    /// Neighbour advertisements that answer.
    neighbour_advertisements_out,
    /// Neighbour advertisements that announce.
    neighbour_announcements_out,
    /// ICMP echo replies.
    echo_replies_out,
    /// ICMPv6 echo replies.
    echo_replies_v6_out,
    /// GTP-U echo responses.
    gtpu_echo_responses_out,
    /// GTP-U error indications.
    error_indications_out,
    /// GTP-U supported extension headers notifications.
    extension_notifications_out,
    /// ICMP destination unreachable.
    unreachables_out,
    /// ICMPv6 destination unreachable.
    unreachables_v6_out,
    /// Frames held for a neighbour to be resolved.
    held,
    /// Of these, sent when it was.
    held_sent,
    /// Frames whose neighbour was known when they came to be held: sent at once.
    sent_at_once,

    /// Another station uses an own address: its message was ignored.
    address_conflicts,
    /// Addresses of other nodes that this one began to answer for.
    addresses_taken_over,
    /// Those that it left to others again.
    addresses_let_go,
    /// Questions to next hops alone whether they are still there.
    next_hops_checked,
    /// Times that all next hops of a link fell silent.
    links_silent,
    /// Neighbours that stopped answering.
    neighbours_lost,
    /// Neighbours whose MAC address changed.
    neighbours_moved,

    /// Messages, or frames to be held, that contradict themselves.
    dropped_malformed,
    /// A checksum was wrong: IPv4, ICMP, ICMPv6, UDP.
    dropped_checksum,
    /// A neighbour discovery message that may come from off the link: its hop limit is not 255.
    dropped_hop_limit,
    /// An answer to nothing asked, or of a station that nobody here wants to know.
    dropped_unsolicited,
    /// A source that no host has, or the node's own.
    dropped_bad_source,
    /// A packet to an own address in a frame to many.
    dropped_link_broadcast,
    /// A fragment to an own address.
    dropped_fragment,
    /// An answer that the link does not take.
    dropped_answer_too_big,
    /// A packet that must not be answered with an error (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)).
    dropped_no_error_allowed,
    /// An answer for which there is no address to send it from.
    dropped_no_own_address,
    /// An answer, or a frame to be held, whose next hop is on no network of the link.
    dropped_no_route,
    /// A question or an answer above its limit a second.
    dropped_rate,
    /// An answer above its peer's limit a second.
    dropped_peer_rate,
    /// A held frame that a newer one took the place of.
    dropped_held_replaced,
    /// A frame that found the room for held frames full.
    dropped_held_full,
    /// A held frame whose neighbour did not answer.
    dropped_held_unanswered,
    /// A frame, not held, for a neighbour that is known not to answer.
    dropped_missing,
    /// A held frame whose neighbour was forgotten for another.
    dropped_held_forgotten,
    /// A frame that found the outbox full.
    dropped_outbox_full,
    /// Packets and answers of a node whose lease had expired.
    dropped_no_lease,
}

impl LocalStats {
    /// All drops together.
    pub fn dropped(&self) -> u64 {
        self.iter().filter(|(name, _)| name.starts_with("dropped_")).map(|(_, count)| count).sum()
    }
}
