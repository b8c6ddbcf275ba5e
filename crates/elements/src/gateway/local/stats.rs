//! Counters of the slow path: messages received and sent by kind, and drops by reason.

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
    /// Other ICMP and ICMPv6 messages to own addresses: errors and replies, which have no effect.
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

    /// ARP requests other than announcements.
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
    /// Held frames that were sent once the neighbour was resolved.
    held_sent,
    /// Frames whose neighbour was already resolved when they were to be held; sent at once.
    sent_at_once,

    /// Another station uses one of the node's addresses; its message was ignored.
    address_conflicts,
    /// Addresses of other nodes that this node took over.
    addresses_taken_over,
    /// Adopted addresses that it released.
    addresses_let_go,
    /// Unicast requests that check whether next hops are still there.
    next_hops_checked,
    /// How often all next hops of a link became silent.
    links_silent,
    /// Neighbours that stopped answering.
    neighbours_lost,
    /// Neighbours whose MAC address changed.
    neighbours_moved,

    /// Messages, or frames to hold, that contradict themselves.
    dropped_malformed,
    /// A checksum was wrong: IPv4, ICMP, ICMPv6, UDP.
    dropped_checksum,
    /// A neighbour discovery message that may come from another link: its hop limit is not 255.
    dropped_hop_limit,
    /// An unrequested answer, or one about a station that the node does not track.
    dropped_unsolicited,
    /// A source that no host can have, or the node's own.
    dropped_bad_source,
    /// A packet to an own address in a broadcast or multicast frame.
    dropped_link_broadcast,
    /// A fragment to an own address.
    dropped_fragment,
    /// An answer larger than the link's MTU.
    dropped_answer_too_big,
    /// A packet that must not be answered with an error (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)).
    dropped_no_error_allowed,
    /// An answer without a source address to send it from.
    dropped_no_own_address,
    /// An answer, or a frame to hold, whose next hop is in no network of the link.
    dropped_no_route,
    /// A request or an answer above the rate limit.
    dropped_rate,
    /// An answer above the rate limit per peer.
    dropped_peer_rate,
    /// A held frame that a newer one replaced.
    dropped_held_replaced,
    /// A frame that was not held because the memory for held frames was full.
    dropped_held_full,
    /// A held frame whose neighbour did not answer.
    dropped_held_unanswered,
    /// A frame for a neighbour that is known not to answer.
    dropped_missing,
    /// A held frame whose neighbour was evicted for another.
    dropped_held_forgotten,
    /// A frame dropped because the outbox was full.
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
