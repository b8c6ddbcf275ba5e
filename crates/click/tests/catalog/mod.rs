//! The classes that the configurations of these tests are made of, with the port counts and the processing and flow
//! codes that Click documents for them.

use scalebricks_click::values::Kind;
use scalebricks_click::{Accepts, Catalog, ClassSpec, Parameter};

pub struct TestCatalog;

const fn positional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, positional: true, mandatory: true }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, positional: true, mandatory: false }
}

const fn keyword(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, positional: false, mandatory: false }
}

const QUEUE: &[Parameter] = &[optional("CAPACITY", Kind::Unsigned)];
const RATE: &[Parameter] = &[positional("RATE", Kind::Unsigned)];
const BANDWIDTH: &[Parameter] = &[positional("RATE", Kind::Bandwidth)];
const ADDRESS: &[Parameter] = &[positional("IP", Kind::Ip)];
const PAINT: &[Parameter] = &[positional("COLOR", Kind::Unsigned), keyword("ANNO", Kind::Word)];
const NBYTES: &[Parameter] = &[positional("LENGTH", Kind::Unsigned)];
const RED: &[Parameter] = &[
    positional("MIN_THRESH", Kind::Unsigned),
    positional("MAX_THRESH", Kind::Unsigned),
    positional("MAX_P", Kind::Word),
    keyword("QUEUES", Kind::Text),
    keyword("STABILITY", Kind::Unsigned),
];
const DEVICE: &[Parameter] = &[
    positional("DEVNAME", Kind::Word),
    keyword("BURST", Kind::Unsigned),
    keyword("PROMISC", Kind::Bool),
    keyword("SNIFFER", Kind::Bool),
];
const DUMP: &[Parameter] = &[
    positional("FILENAME", Kind::FileName),
    keyword("TIMING", Kind::Bool),
    keyword("STOP", Kind::Bool),
    keyword("SNAPLEN", Kind::Unsigned),
    keyword("ENCAP", Kind::Word),
];
const ETHER: &[Parameter] =
    &[positional("ETHERTYPE", Kind::Unsigned), positional("SRC", Kind::Mac), positional("DST", Kind::Mac)];
const QUERIER: &[Parameter] =
    &[positional("IP", Kind::Ip), positional("ETH", Kind::Mac), keyword("TIMEOUT", Kind::Time)];
const SOURCE: &[Parameter] = &[
    optional("DATA", Kind::Text),
    optional("LIMIT", Kind::Signed),
    optional("BURST", Kind::Signed),
    optional("ACTIVE", Kind::Bool),
    keyword("LENGTH", Kind::Unsigned),
    keyword("STOP", Kind::Bool),
];
const RATED: &[Parameter] = &[
    optional("DATA", Kind::Text),
    optional("RATE", Kind::Unsigned),
    optional("LIMIT", Kind::Signed),
    optional("ACTIVE", Kind::Bool),
    keyword("LENGTH", Kind::Unsigned),
    keyword("STOP", Kind::Bool),
];
const FRAGMENTER: &[Parameter] =
    &[positional("MTU", Kind::Unsigned), keyword("HONOR_DF", Kind::Bool), keyword("VERBOSE", Kind::Bool)];
const IPENCAP: &[Parameter] = &[
    positional("PROTO", Kind::Word),
    positional("SRC", Kind::Ip),
    positional("DST", Kind::Ip),
    keyword("DSCP", Kind::Unsigned),
    keyword("TTL", Kind::Unsigned),
];

const fn spec(ports: &'static str, processing: &'static str) -> ClassSpec<'static> {
    ClassSpec::new(ports, processing)
}

const fn with(
    ports: &'static str,
    processing: &'static str,
    parameters: &'static [Parameter],
) -> ClassSpec<'static> {
    ClassSpec::new(ports, processing).arguments(Accepts::Parameters(parameters))
}

const fn least(ports: &'static str, processing: &'static str, arguments: usize) -> ClassSpec<'static> {
    ClassSpec::new(ports, processing).arguments(Accepts::Any(arguments))
}

pub const CLASSES: &[(&str, ClassSpec<'static>)] = &[
    // Sources, sinks, files and devices.
    ("FromDevice", with("0/1-2", "h/h", DEVICE)),
    ("PollDevice", with("0/1", "h/h", DEVICE)),
    ("ToDevice", with("1/0-2", "l/h", DEVICE)),
    ("ToHost", spec("1/0-1", "h/h")),
    ("FromDump", with("0/1-2", "a/ah", DUMP)),
    ("ToDump", with("1/0-1", "a/a", DUMP)),
    ("InfiniteSource", with("0/1", "a/a", SOURCE)),
    ("RatedSource", with("0/1", "a/a", RATED)),
    ("Idle", spec("-/-", "a/a").flow("x/y")),
    ("Discard", spec("1/0", "a/a")),
    // Queues and switches.
    ("Queue", with("1/1-2", "h/lh", QUEUE)),
    ("Unqueue", spec("1/1", "l/h")),
    ("RatedUnqueue", with("1/1", "l/h", RATE)),
    ("Tee", spec("1/1-", "h/h")),
    ("Switch", spec("1/-", "h/h")),
    ("RoundRobinSwitch", spec("1/1-", "h/h")),
    ("HashSwitch", least("1/1-", "h/h", 2)),
    ("Null", spec("1/1", "a/a")),
    ("Counter", spec("1/1", "a/a")),
    ("Print", spec("1/1", "a/a")),
    ("Paint", with("1/1", "a/a", PAINT)),
    ("PaintTee", with("1/2", "a/ah", PAINT)),
    ("PaintSwitch", spec("1/-", "h/h")),
    ("CheckPaint", with("1/1-2", "a/ah", PAINT)),
    // Ethernet.
    ("Classifier", least("1/-", "h/h", 1)),
    ("EtherEncap", with("1/1", "a/a", ETHER)),
    ("HostEtherFilter", least("1/1-2", "a/ah", 1)),
    ("DropBroadcasts", spec("1/1", "a/a")),
    ("ARPQuerier", with("2/1-2", "h/h", QUERIER).flow("xy/x")),
    ("ARPResponder", least("1/1-2", "a/ah", 1)),
    ("Strip", with("1/1", "a/a", NBYTES)),
    ("Unstrip", with("1/1", "a/a", NBYTES)),
    // IP.
    ("CheckIPHeader", spec("1/1-2", "a/ah")),
    ("MarkIPHeader", spec("1/1", "a/a")),
    ("GetIPAddress", with("1/1", "a/a", &[optional("OFFSET", Kind::Unsigned)])),
    ("IPClassifier", least("1/-", "h/h", 1)),
    ("IPFilter", least("1/-", "h/h", 1)),
    ("StaticIPLookup", spec("1/-", "h/h")),
    ("LinearIPLookup", spec("1/-", "h/h")),
    ("RadixIPLookup", spec("1/-", "h/h")),
    ("DirectIPLookup", spec("1/-", "h/h")),
    ("DecIPTTL", spec("1/1-2", "a/ah")),
    ("IPGWOptions", least("1/1-2", "a/ah", 1)),
    ("FixIPSrc", with("1/1", "a/a", ADDRESS)),
    ("IPFragmenter", with("1/1-2", "h/h", FRAGMENTER)),
    ("ICMPError", least("1/1", "a/a", 2)),
    ("ICMPPingResponder", spec("1/1-2", "a/ah")),
    ("IPEncap", with("1/1", "a/a", IPENCAP)),
    ("SetIPChecksum", spec("1/1", "a/a")),
    ("SetIPDSCP", with("1/1", "a/a", &[positional("DSCP", Kind::Unsigned)])),
    ("IPInputCombo", least("1/1-2", "a/ah", 1)),
    ("IPOutputCombo", least("1/5", "h/h", 3)),
    ("IPPrint", spec("1/1", "a/a")),
    ("IPRewriter", least("1-/1-256", "h/h", 1)),
    ("IPsecESPEncap", spec("1/1", "a/a")),
    ("IPsecESPUnencap", spec("1/1", "a/a")),
    ("IPsecAES", least("1/1", "a/a", 1)),
    ("IPsecAuthHMACSHA1", least("1/-", "a/ah", 1)),
    // Quality of service.
    ("RED", with("1/1-2", "a/ah", RED)),
    ("Shaper", with("1/1", "l/l", RATE)),
    ("BandwidthShaper", with("1/1", "l/l", BANDWIDTH)),
    ("Meter", least("1/2-", "h/h", 1)),
    ("PrioSched", spec("1-/1", "l/l")),
    ("RoundRobinSched", spec("1-/1", "l/l")),
    ("DRRSched", spec("-/1", "l/l")),
    // Information.
    ("AddressInfo", spec("0/0", "a/a")),
    ("StaticThreadSched", spec("0/0", "a/a")),
    ("ScheduleInfo", spec("0/0", "a/a")),
    ("ControlSocket", least("0/0", "a/a", 2)),
    ("Script", spec("0/0", "a/a")),
    // Not classes of Click: features that none of its classes has.
    ("Pairs", spec("1-/=", "a/a").flow("#/#")),
    ("Wrong", spec("1//1", "a/a")),
];

impl Catalog for TestCatalog {
    fn class(&self, name: &str) -> Option<ClassSpec<'_>> {
        CLASSES.iter().find(|(class, _)| *class == name).map(|(_, spec)| *spec)
    }

    fn names(&self) -> Vec<&str> {
        CLASSES.iter().map(|(class, _)| *class).collect()
    }

    fn has_package(&self, package: &str) -> bool {
        package == "extras"
    }
}
