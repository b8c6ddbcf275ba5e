//! The macro that declares `ARPQuerier` and `IP6NDSolicitor`.

/// Declares a class of packets' next hops on a link: documentation, name, parameters, the interface's own parameters, the
/// column, and how the class is made.
macro_rules! resolver {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident as $class:literal { $discovery:ty }
        inputs { $packets:literal: $packets_doc:literal, $answers:literal: $answers_doc:literal, }
        requests $requests_doc:literal,
        params $params:ident { $($(#[doc = $param_doc:literal])+ $param:ident: $param_type:ty $(= $default:expr)?,)* }
        example $example:tt
        reads $column:ident,
        bad_reply $bad_reply:path,
        link |$given:ident| $link:expr,
    ) => {
        scalebricks_graph::element! {
            $(#[doc = $doc])+
            pub struct $name<P> as $class { resolver: $crate::resolver::Resolver<P, $discovery>, }
            inputs {
                push $packets: $packets_doc, push $answers [Optional]: $answers_doc,
                push "wanted" [Optional]: "Packets whose next hop's MAC address is wanted ahead of traffic. They end here.",
            }
            outputs { push "out": "Ethernet frames.", push "queries" [Optional]: $requests_doc, }
            fresh { "out", "queries", }
            params $params {
                $($(#[doc = $param_doc])+ $param: $param_type $(= $default)?,)*
                /// Most waiting packets in total.
                capacity: usize = 2_048,
                /// Most waiting packets per host; beyond it the oldest is dropped.
                entry_packet_capacity: usize = 64,
                /// Most hosts in the table. A new host replaces one that has not answered.
                entry_capacity: usize = 4_096,
                /// How long an answer is valid; forever if 0.
                timeout: std::time::Duration = std::time::Duration::from_secs(300),
                /// A packet to a host whose answer is older than this triggers another request; never if 0.
                poll_timeout: std::time::Duration = std::time::Duration::from_secs(60),
                /// Time between two requests for a host.
                retry: std::time::Duration = std::time::Duration::from_secs(1),
                /// Requests for a host before its packets are dropped.
                tries: u32 = 3,
                /// Most requests per second for all hosts; a tenth of them may be sent at once. So packets to many
                /// addresses cause no broadcast storm.
                query_rate: u32 = 1_000,
            }
            example $example
            reads { $column on $packets, $column on "wanted", }
            drops {
                NO_DESTINATION = "no_destination": "The packet's next hop is the unspecified address.",
                NO_ANSWER = "no_answer": "The host did not answer.",
                QUEUE_FULL = $crate::shared_names::drops::QUEUE_FULL,
                TABLE_FULL = "table_full": "The table is full.",
                EVICTED = "evicted": "The host that it waited for was replaced by another.",
                NO_ROOM = $crate::shared_names::drops::NO_HEADROOM,
                BAD_REPLY = $bad_reply,
            }
            counters {
                QUERIES = "queries" [Made]: "Questions sent.",
                NOT_SENT = "queries_not_sent": "Requests not sent: over the rate, or no buffer, slot or timer was free.",
                RESPONSES = "responses" [Ended]: "Answers received.",
                UNASKED = "unasked": "Answers from hosts that were not asked, or whose MAC address was set.",
                SENT = "sent": "Packets sent after waiting.",
                WANTED = "wanted" [Ended]: "Packets that wanted a MAC address ahead of traffic.",
                LENGTH_NOW = "length_now": "Waiting packets (a level).",
            }
            handlers {
                read TABLE = "table": "Hosts, their MAC addresses or ?, and the number of packets waiting for each, one per line.",
                read COUNT = "count": "Hosts resolved or pending.",
                read LENGTH = "length": "Waiting packets.",
                read DROPS = "drops": "Packets dropped so far.",
                read STATS = "stats": "Waiting packets, hosts and dropped packets, as text.",
                write CLEAR = "clear": "Forgets all MAC addresses except those to which waiting packets are being sent.",
                write INSERT = "insert": "Sets a host's MAC address permanently: `IP ETH`.",
                write DELETE = "delete": "Forgets a host's MAC address: `IP`.",
            }
            keeps { resolver.neighbours, resolver.dropped, }
        }

        impl<P> $name<P> {
            const IDS: $crate::resolver::ResolverIds = $crate::resolver::ResolverIds {
                no_destination: Self::NO_DESTINATION,
                no_answer: Self::NO_ANSWER,
                queue_full: Self::QUEUE_FULL,
                table_full: Self::TABLE_FULL,
                evicted: Self::EVICTED,
                no_room: Self::NO_ROOM,
                bad_reply: Self::BAD_REPLY,
                queries: Self::QUERIES,
                not_sent: Self::NOT_SENT,
                responses: Self::RESPONSES,
                unasked: Self::UNASKED,
                sent: Self::SENT,
                wanted: Self::WANTED,
                length_now: Self::LENGTH_NOW,
            };

            /// Its state.
            pub(crate) const fn resolver(&self) -> &$crate::resolver::Resolver<P, $discovery> {
                &self.resolver
            }
        }

        impl<P: scalebricks_io::PacketBuf> scalebricks_graph::Class for $name<P> {
            fn make($given: $params) -> Result<Self, String> {
                let config = $crate::arp_table::ArpConfig {
                    entries: $given.entry_capacity,
                    waiting: $given.capacity,
                    waiting_each: $given.entry_packet_capacity,
                    timeout: $given.timeout,
                    poll_after: $given.poll_timeout,
                    retry: $given.retry,
                    tries: $given.tries,
                };
                let resolver = $crate::resolver::Resolver::new($link, config, $given.query_rate, Self::IDS);
                resolver.map(|resolver| Self { resolver })
            }
        }

        impl<P: scalebricks_io::PacketBuf + 'static> scalebricks_graph::Control for $name<P> {
            fn bind(
                &mut self,
                binder: &scalebricks_graph::Binder<'_>,
            ) -> Result<(), scalebricks_graph::element::BindError> {
                self.resolver.to = usize::from(binder.outputs() > 1);
                self.resolver.dst = binder.column()?;
                Ok(())
            }

            fn read(&self, handler: scalebricks_graph::HandlerId) -> String {
                match handler {
                    Self::TABLE => self.resolver.neighbours.table(),
                    Self::COUNT => self.resolver.neighbours.len().to_string(),
                    Self::LENGTH => self.resolver.neighbours.waiting().to_string(),
                    Self::DROPS => self.resolver.dropped.to_string(),
                    _ => self.resolver.stats(),
                }
            }

            fn write(
                &mut self,
                handler: scalebricks_graph::HandlerId,
                text: &str,
            ) -> Result<(), scalebricks_graph::element::HandlerError> {
                match handler {
                    Self::CLEAR => self.resolver.neighbours.forget_all(),
                    Self::INSERT => self.resolver.insert(text)?,
                    _ => self.resolver.delete(text)?,
                }
                Ok(())
            }
        }

        impl<P: scalebricks_io::PacketBuf + 'static> scalebricks_graph::Element<P> for $name<P> {
            fn push(
                &mut self,
                input: usize,
                batch: &mut scalebricks_graph::SlotList,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                self.resolver.push(input, batch, frame, out);
            }

            fn timer(
                &mut self,
                token: u64,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                self.resolver.timer(token, frame, out);
            }

            fn held(&self) -> usize {
                self.resolver.neighbours.waiting()
            }

            fn drain(&mut self, to: &mut dyn FnMut(P, scalebricks_graph::Meta)) {
                self.resolver.neighbours.drain().for_each(|(packet, meta)| to(packet, meta));
            }
        }
    };
}

pub(crate) use resolver;
