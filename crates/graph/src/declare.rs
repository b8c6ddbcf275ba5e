//! The macro that declares an element.

/// Declares an element: its struct with `Debug`, and the contents of its class's [`Spec`](crate::Spec). Drop reasons, counters and
/// handlers become constants of the struct. All sections except the struct are optional; their order is fixed.
///
/// Drop reasons, counters and handlers that several elements share are declared once as
/// [`NameAndDoc`](crate::spec::NameAndDoc); each element gives the constant's path instead of a name and a text. Any
/// constant with a method `const fn named(self) -> NameAndDoc` will do.
///
/// `binds` lists fields that get their values from the element's place in the graph, `keeps` those that continue from
/// its predecessor in the previous configuration. `makes` creates the element from its parameters; a class that may
/// refuse them, or has a type parameter, implements [`Class`](crate::Class) instead.
///
/// ```
/// use scalebricks_graph::spec::NameAndDoc;
/// use scalebricks_graph::{Column, element};
///
/// const SHORT: NameAndDoc = NameAndDoc { name: "too_short", doc: "The packet ends too early." };
///
/// #[derive(Debug, Clone, Copy)]
/// struct Answer(u32);
/// impl Column for Answer {
///     const NAME: &'static str = "answer";
///     const POISON: Self = Self(u32::MAX);
/// }
///
/// element! {
///     /// Asks a table for each packet.
///     pub struct Ask as "Ask" { tries: u32 }
///     inputs { push "in": "Packets to ask for.", }
///     outputs {
///         push "found": "Packets with an answer.",
///         push "missing" [Optional]: "Packets without one.",
///     }
///     params AskParams {
///         /// How often it asks.
///         tries: u32 = 1,
///     }
///     example { "TRIES 2", }
///     writes { Answer on "found", }
///     drops { BROKEN = "table_broken": "The table gave no sense.", TOO_SHORT = SHORT, }
///     counters { ASKED = "asked": "Questions asked.", }
///     handlers { read TRIES = "tries": "How often it asks.", }
///     makes |params| Self { tries: params.tries },
/// }
///
/// assert_eq!(Ask::SPEC.class, "Ask");
/// assert_eq!(Ask::SPEC.params[0].default, Some("1"));
/// assert_eq!(Ask::SPEC.example, ["TRIES 2"]);
/// assert_eq!(Ask::SPEC.drops[0].name, "table_broken");
/// assert_eq!(Ask::SPEC.drops[1].name, SHORT.name);
/// # let _ = (Ask { tries: 1 }.tries, Ask::BROKEN, Ask::TOO_SHORT, Ask::ASKED, Ask::TRIES);
/// ```
#[macro_export]
macro_rules! element {
    (
        $(#[doc = $doc:literal])+
        $(#[derive($($derived:ident),* $(,)?)])?
        $vis:vis struct $name:ident $(<$($generic:ident),+>)? as $class:literal { $($fields:tt)* }
        $(inputs { $($in_flow:ident $in_name:literal $([$in_many:ident])?: $in_doc:literal,)* })?
        $(outputs { $($out_flow:ident $out_name:literal $([$out_many:ident])?: $out_doc:literal,)* })?
        $(fresh { $($fresh:literal,)* })?
        $(params $params:ident {
            $($(#[doc = $param_doc:literal])+ $param:ident: $param_type:ty $(= $default:expr)?,)*
        })?
        $(example { $($example:literal,)* })?
        $(reads { $($reads:ident $(on $reads_on:literal)?,)* })?
        $(writes { $($writes:ident $(on $writes_on:literal)?,)* })?
        $(drops { $($drop:ident = $($drop_name:literal: $drop_doc:literal)? $($drop_of:path)?,)* })?
        $(counters { $(
            $counter:ident =
                $($counter_name:literal $([$counts:ident])?: $counter_doc:literal)?
                $($counter_of:path $([$counts_of:ident])?)?,
        )* })?
        $(handlers { $(
            $access:ident $handler:ident = $($handler_name:literal: $handler_doc:literal)? $($handler_of:path)?,
        )* })?
        $(hooks { $($hook:ident,)* })?
        $(binds { $($bound:ident),* $(,)? })?
        $(keeps { $($($kept:ident).+),* $(,)? })?
        $(makes |$given:pat_param| $make:expr $(,)?)?
    ) => {
        $(#[doc = $doc])+
        $(#[derive($($derived),*)])?
        $vis struct $name $(<$($generic),+>)? { $($fields)* }

        impl $(<$($generic),+>)? $name $(<$($generic),+>)? {
            /// The class's specification.
            pub const SPEC: &'static $crate::Spec = &$crate::Spec {
                class: $class,
                doc: &[$($doc),+],
                inputs: &[$($($crate::spec::PortSpec {
                    name: $in_name, flow: $crate::element!(@flow $in_flow), by_value: $crate::element!(@by_value $in_flow),
                    many: $crate::element!(@many $($in_many)?), doc: $in_doc,
                }),*)?],
                outputs: &[$($($crate::spec::PortSpec {
                    name: $out_name, flow: $crate::element!(@flow $out_flow), by_value: $crate::element!(@by_value $out_flow),
                    many: $crate::element!(@many $($out_many)?), doc: $out_doc,
                }),*)?],
                fresh: &[$($($fresh),*)?],
                params: &[$($($crate::spec::ParamSpec {
                    name: $crate::spec::param_name(stringify!($param)), kind: <$param_type as $crate::args::Param>::KIND,
                    default: $crate::element!(@default $($default)?), doc: &[$($param_doc),+],
                }),*)?],
                example: &[$($($example),*)?],
                reads: &[$($($crate::column::ColumnSpec::of::<$reads>($crate::element!(@on $($reads_on)?))),*)?],
                writes: &[$($($crate::column::ColumnSpec::of::<$writes>($crate::element!(@on $($writes_on)?))),*)?],
                drops: &[$($($crate::element!(@named $($drop_name, $drop_doc)? $($drop_of)?).drop()),*)?],
                counters: &[$($(
                    $crate::element!(@named $($counter_name, $counter_doc)? $($counter_of)?)
                        .counter($crate::element!(@counts $($($counts)?)? $($($counts_of)?)?))
                ),*)?],
                handlers: &[$($(
                    $crate::element!(@named $($handler_name, $handler_doc)? $($handler_of)?)
                        .handler($crate::element!(@access $access))
                ),*)?],
                hooks: &[$($($crate::spec::Hook::$hook),*)?],
            };
            $($($(#[doc = $drop_doc])? $(#[doc = concat!("`", stringify!($drop_of), "`.")])?
            pub const $drop: $crate::DropId = $crate::spec::drop_id(
                Self::SPEC.drops, $crate::element!(@named $($drop_name, $drop_doc)? $($drop_of)?).name);)*)?
            $($($(#[doc = $counter_doc])? $(#[doc = concat!("`", stringify!($counter_of), "`.")])?
            pub const $counter: $crate::CounterId = $crate::spec::counter_id(
                Self::SPEC.counters, $crate::element!(@named $($counter_name, $counter_doc)? $($counter_of)?).name);)*)?
            $($($(#[doc = $handler_doc])? $(#[doc = concat!("`", stringify!($handler_of), "`.")])?
            pub const $handler: $crate::HandlerId = $crate::spec::handler_id(
                Self::SPEC.handlers, $crate::element!(@named $($handler_name, $handler_doc)? $($handler_of)?).name,
                $crate::element!(@access $access));)*)?
        }

        impl $(<$($generic),+>)? ::std::fmt::Debug for $name $(<$($generic),+>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct($class).finish_non_exhaustive()
            }
        }

        impl $(<$($generic),+>)? $crate::element::Declared for $name $(<$($generic),+>)? {
            const SPEC: &'static $crate::Spec = Self::SPEC;
            type Params = $crate::element!(@params $($params)?);

            $(fn bind_fields(&mut self, binder: &$crate::Binder<'_>) -> Result<(), $crate::element::BindError> {
                $(self.$bound = $crate::element::Bound::bound(binder)?;)*
                Ok(())
            })?

            $(fn keep(&mut self, before: &mut Self) {
                $(std::mem::swap(&mut self.$($kept).+, &mut before.$($kept).+);)*
            })?
        }

        $(impl $crate::Class for $name {
            fn make($given: Self::Params) -> Result<Self, String> {
                Ok($make)
            }
        })?

        $(
            #[doc = concat!("Parameters of [`", stringify!($name), "`].")]
            #[derive(Debug, Clone)]
            $vis struct $params {
                $($(#[doc = $param_doc])+ pub $param: $param_type,)*
            }

            impl $crate::args::Params for $params {
                fn parse(args: &mut $crate::args::Args<'_>) -> Result<Self, $crate::args::ArgError> {
                    Ok(Self {
                        $($param: match $crate::args::Param::take(args, $crate::spec::param_name(stringify!($param)))? {
                            Some(value) => value,
                            None => $crate::element!(@missing $param $($default)?),
                        },)*
                    })
                }
            }
        )?
    };
    (@named $name:literal, $doc:literal) => { $crate::spec::NameAndDoc { name: $name, doc: $doc } };
    (@named $of:path) => { $of.named() };
    (@params) => { $crate::args::NoParams };
    (@params $params:ident) => { $params };
    (@by_value burst) => { true };
    (@by_value $flow:ident) => { false };
    (@flow burst) => { $crate::spec::PortKind::Push };
    (@flow push) => { $crate::spec::PortKind::Push };
    (@flow pull) => { $crate::spec::PortKind::Pull };
    (@flow agnostic) => { $crate::spec::PortKind::Agnostic };
    (@many) => { $crate::spec::PortArity::One };
    (@many $many:ident) => { $crate::spec::PortArity::$many };
    (@default) => { None };
    (@default $default:expr) => { Some(stringify!($default)) };
    (@on) => { None };
    (@on $on:literal) => { Some($on) };
    (@counts) => { $crate::spec::Counts::Other };
    (@counts $counts:ident) => { $crate::spec::Counts::$counts };
    (@access read) => { $crate::spec::Access::Read };
    (@access write) => { $crate::spec::Access::Write };
    (@missing $param:ident) => { return Err($crate::args::ArgError::Missing($crate::spec::param_name(stringify!($param)))) };
    (@missing $param:ident $default:expr) => { $default };
}
