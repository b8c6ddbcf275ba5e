//! Routes that pin, move, delete, find and export flows.

use super::Limits;
use super::cluster;
use super::rejected::from_rejections;
use crate::flow_list::columns::{COLUMNS, Cell, FlowParser, NAME};
use crate::flows::{Flows, FlowsError};
use crate::model::{
    Few, FlowProblem, FlowRecord, FlowsAccepted, FlowsProblem, MAX_PROBLEMS, PinnedFlow, Problem,
};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use hyper::body::Bytes;
use scalebricks_cluster::plane::Accepted;
use scalebricks_types::{FlowKey, KeyProfile, Qfi};
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Largest body: as many flows as a call may contain, in the longest notation.
const BODY_BYTES: usize = 2 << 20;

/// The state of the routes.
#[derive(Clone)]
pub(super) struct Plane {
    flows: Option<Arc<dyn Flows>>,
    /// How long a call waits until all nodes have applied its changes.
    patience: Duration,
}

impl Plane {
    pub(super) fn flows(&self) -> Result<&dyn Flows, Refusal> {
        self.flows.as_deref().ok_or_else(|| {
            let error = "this node has no control plane: its flows come from a file";
            Refusal::new(StatusCode::NOT_IMPLEMENTED, error)
        })
    }

    /// Whether all nodes are known to have applied the changes within [`Self::patience`].
    pub(super) async fn is_applied(&self, flows: &dyn Flows, accepted: &Accepted) -> Result<bool, Refusal> {
        match tokio::time::timeout(self.patience, flows.applied(accepted)).await {
            Ok(applied) => Ok(applied.map(|()| true)?),
            Err(_) => Ok(false),
        }
    }

    /// The answer to a call that changed flows.
    async fn accepted(
        &self,
        options: Options,
        accepted: Accepted,
        (count, absent): (usize, usize),
    ) -> Result<Response, Refusal> {
        let is_applied = options.wait.is_some() && self.is_applied(self.flows()?, &accepted).await?;
        let answer = FlowsAccepted { accepted: count as u64, absent: absent as u64, is_applied };
        Ok((code(is_applied), Json(answer)).into_response())
    }

    /// Parses the options and the flows of a call, which may have these columns. Each flow becomes a value, and keys
    /// that must be unique in the call. All wrong flows are reported.
    fn changes<T>(
        &self,
        asked: Asked<Options>,
        body: Body,
        columns: &[&str],
        parse: impl Fn(&FlowParser, &FlowRecord) -> Result<(T, Vec<FlowKey>), String>,
    ) -> Result<(Options, Vec<T>), Refusal> {
        let parser = self.flows()?.parser();
        let Query(options) = asked?;
        let Json(Few(records)) = body?;
        if records.is_empty() {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "no flows in the body"));
        }
        let (mut values, mut problems) = (Vec::with_capacity(records.len()), Vec::new());
        let mut seen: HashMap<FlowKey, usize> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            let value = record.only(columns).and_then(|()| parse(parser, record)).and_then(
                |(value, keys)| match keys.iter().find_map(|key| Some((key, seen.insert(*key, index)?))) {
                    Some((key, before)) => {
                        let what = if key.is_teid() { "uplink_teid" } else { "key" };
                        Err(format!("the same {what} as flow {before}"))
                    }
                    None => Ok(value),
                },
            );
            match value {
                Ok(value) => values.push(value),
                Err(error) => problems.push(FlowProblem { index: index as u64, error }),
            }
        }
        if problems.is_empty() {
            Ok((options, values))
        } else {
            Err(Refusal::flows(StatusCode::BAD_REQUEST, problems, records.len()))
        }
    }
}

/// A body from the items of a channel. An error cuts the answer off, so that its reader sees that it is incomplete.
pub(super) fn channel_body<T: Send + 'static>(
    channel: Receiver<T>,
    piece: fn(T) -> io::Result<Bytes>,
) -> axum::body::Body {
    axum::body::Body::from_stream(stream::unfold(channel, move |mut channel| async move {
        let item = channel.recv().await?;
        Some((piece(item), channel))
    }))
}

pub(super) const fn code(is_applied: bool) -> StatusCode {
    if is_applied { StatusCode::OK } else { StatusCode::ACCEPTED }
}

/// The routes. They accept longer bodies than others.
pub(super) fn router<S>(flows: Option<Arc<dyn Flows>>, limits: Limits) -> Router<S> {
    let patience = limits.request_time.mul_f64(0.75);
    Router::new()
        .route("/v1/flows", post(pin).get(export))
        .route("/v1/flows/move", post(move_to))
        .route("/v1/flows/delete", post(unpin))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .route("/v1/flow", get(find))
        .merge(cluster::router())
        .with_state(Plane { flows, patience })
}

/// Options of a call.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct Options {
    /// Answer when all living nodes have applied the changes, or some seconds later. Without it the answer comes when
    /// the owners of all affected partitions have logged and judged the changes.
    #[param(inline)]
    pub(super) wait: Option<Wait>,
    /// The pinned flows are new or keep their uplink TEIDs: previous flows need not be looked up.
    new: Option<bool>,
}

/// The event to wait for.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wait {
    /// All living nodes have applied the changes.
    Applied,
}

/// Why a call failed.
pub(super) struct Refusal(StatusCode, FlowsProblem);

impl Refusal {
    pub(super) fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self(code, FlowsProblem { error: error.into(), flows: Vec::new() })
    }

    /// Reports wrong flows: counts all, and lists the first.
    fn flows(code: StatusCode, problems: Vec<FlowProblem>, of: usize) -> Self {
        let first = problems
            .first()
            .map_or_else(String::new, |problem| format!("; flow {}: {}", problem.index, problem.error));
        let error = format!("{} of {of} flows are wrong, and no flow was changed{first}", problems.len());
        let flows = problems.into_iter().take(MAX_PROBLEMS).collect();
        Self(code, FlowsProblem { error, flows })
    }
}

impl From<FlowsError> for Refusal {
    fn from(error: FlowsError) -> Self {
        let code = match error {
            FlowsError::Absent(_) | FlowsError::NoSuchNode(_) => StatusCode::NOT_FOUND,
            FlowsError::Conflict(_) | FlowsError::Refused { is_room: false, .. } => StatusCode::CONFLICT,
            FlowsError::Full(_) | FlowsError::Refused { is_room: true, .. } => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            FlowsError::Invalid(_) => StatusCode::BAD_REQUEST,
            FlowsError::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            FlowsError::Later(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let missing =
            |index: &usize| FlowProblem { index: *index as u64, error: "does not exist".to_owned() };
        let flows = match &error {
            FlowsError::Absent(absent) => absent.iter().take(MAX_PROBLEMS).map(missing).collect(),
            FlowsError::Refused { flows, .. } => {
                let refused = |(index, error): &(usize, String)| FlowProblem {
                    index: *index as u64,
                    error: error.clone(),
                };
                flows.iter().take(MAX_PROBLEMS).map(refused).collect()
            }
            _ => Vec::new(),
        };
        let first = match &error {
            FlowsError::Refused { flows, .. } => {
                flows.first().map(|(index, why)| format!("; flow {index}: {why}"))
            }
            _ => None,
        };
        Self(code, FlowsProblem { error: format!("{error}{}", first.unwrap_or_default()), flows })
    }
}

from_rejections!(Refusal: JsonRejection, QueryRejection);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(code, problem) = self;
        if code == StatusCode::SERVICE_UNAVAILABLE {
            return (code, [(header::RETRY_AFTER, "1")], Json(problem)).into_response();
        }
        (code, Json(problem)).into_response()
    }
}

type Body = Result<Json<Few<FlowRecord>>, JsonRejection>;
pub(super) type Asked<T> = Result<Query<T>, QueryRejection>;

/// Pins flows to nodes, whether they exist or not. Each has all columns of a flow file. A refused flow (409, 507) may
/// be pinned in one direction only, until it is sent again or deleted; the other flows of the call are pinned.
#[utoipa::path(post, path = "/v1/flows", params(Options), request_body = Vec<FlowRecord>, responses(
    (status = 200, body = FlowsAccepted, description = "all living nodes have applied the changes"),
    (status = 202, body = FlowsAccepted, description = "the changes are in the log and were executed there, and all nodes will apply them"),
    (status = 400, body = FlowsProblem, description = "a flow is wrong, and no flow was changed"),
    (status = 408, body = Problem, description = "timeout: the changes may be in the log or not; send them again"),
    (status = 409, body = FlowsProblem, description = "a node is not alive, and nothing was done; or some flows were refused for the reasons given, and the others were pinned"),
    (status = 413, body = FlowsProblem, description = "too many flows for one call"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "flows come from a file"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
    (status = 507, body = FlowsProblem, description = "a handling node or a partition has no room for the listed flows; for all flows if none is listed"),
))]
pub(super) async fn pin(
    State(plane): State<Plane>,
    asked: Asked<Options>,
    body: Body,
) -> Result<Response, Refusal> {
    let (options, specs) = plane.changes(asked, body, &COLUMNS, |parser, record| {
        let spec = parser.flow(record)?;
        Ok((spec, vec![spec.key, FlowKey::teid(spec.uplink_teid)]))
    })?;
    let count = specs.len();
    let accepted = plane.flows()?.pin(specs, options.new == Some(true)).await?;
    plane.accepted(options, accepted, (count, 0)).await
}

/// Pins existing flows to other nodes. Each has the columns that name it, and `node`.
#[utoipa::path(post, path = "/v1/flows/move", params(Options), request_body = Vec<FlowRecord>, responses(
    (status = 200, body = FlowsAccepted, description = "all living nodes have applied the changes"),
    (status = 202, body = FlowsAccepted, description = "the changes are in the log and were executed there, and all nodes will apply them"),
    (status = 400, body = FlowsProblem, description = "a flow is wrong, and no flow was changed"),
    (status = 404, body = FlowsProblem, description = "a flow does not exist, and no flow was moved"),
    (status = 408, body = Problem, description = "timeout: the changes may be in the log or not; send them again"),
    (status = 409, body = FlowsProblem, description = "a node is not alive, and nothing was done; or some flows were refused for the reasons given, and the others were moved"),
    (status = 413, body = FlowsProblem, description = "too many flows for one call"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "flows come from a file"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
    (status = 507, body = FlowsProblem, description = "a handling node has no room for the listed flows; for all flows if none is listed"),
))]
pub(super) async fn move_to(
    State(plane): State<Plane>,
    asked: Asked<Options>,
    body: Body,
) -> Result<Response, Refusal> {
    let columns = [NAME, &["node"]].concat();
    let (options, moves) = plane.changes(asked, body, &columns, |parser, record| {
        let key = parser.key(record)?;
        Ok(((key, parser.node(record)?), vec![key]))
    })?;
    let count = moves.len();
    let accepted = plane.flows()?.move_to(moves).await?;
    plane.accepted(options, accepted, (count, 0)).await
}

/// Deletes flows. Flows that do not exist are counted. Each has the columns that name it.
#[utoipa::path(post, path = "/v1/flows/delete", params(Options), request_body = Vec<FlowRecord>, responses(
    (status = 200, body = FlowsAccepted, description = "all living nodes have applied the changes"),
    (status = 202, body = FlowsAccepted, description = "the changes are in the log and were executed there, and all nodes will apply them"),
    (status = 400, body = FlowsProblem, description = "a flow is wrong, and no flow was changed"),
    (status = 408, body = Problem, description = "timeout: the changes may be in the log or not; send them again"),
    (status = 409, body = FlowsProblem, description = "some flows were refused for the reasons given, and the others were deleted"),
    (status = 413, body = FlowsProblem, description = "too many flows for one call"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "flows come from a file"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn unpin(
    State(plane): State<Plane>,
    asked: Asked<Options>,
    body: Body,
) -> Result<Response, Refusal> {
    let (options, keys) = plane.changes(asked, body, NAME, |parser, record| {
        let key = parser.key(record)?;
        Ok((key, vec![key]))
    })?;
    let count = keys.len();
    let (accepted, absent) = plane.flows()?.unpin(keys).await?;
    plane.accepted(options, accepted, (count.saturating_sub(absent), absent)).await
}

/// The key in a query.
fn asked_key(parser: &FlowParser, record: &FlowRecord) -> Result<FlowKey, String> {
    if record.uplink_teid != Cell::Absent {
        record.only(&["uplink_teid"])?;
        return Ok(FlowKey::teid(parser.uplink_teid(record)?));
    }
    if record.ue == Cell::Absent {
        let name = match parser.profile() {
            KeyProfile::Ue | KeyProfile::Inside | KeyProfile::Nat44(_) => "by ue",
            KeyProfile::Flow5 => "by ue, remote, remote_port, ue_port and protocol",
        };
        return Err(format!("name the flow: {name}, or by uplink_teid"));
    }
    record.only(NAME)?;
    parser.key(record)
}

/// Finds a flow by its UE or five-tuple, or by its uplink TEID: where it is pinned, and its counters.
#[utoipa::path(get, path = "/v1/flow", params(
    ("ue" = Option<String>, Query, description = "address of the UE"),
    ("remote" = Option<String>, Query, description = "address of the remote end, where five-tuples are the keys"),
    ("remote_port" = Option<u16>, Query, description = "port of the remote end"),
    ("ue_port" = Option<u16>, Query, description = "port of the UE"),
    ("protocol" = Option<String>, Query, description = "tcp, udp or a number"),
    ("uplink_teid" = Option<String>, Query, description = "TEID at the gateway, instead of all other columns"),
), responses(
    (status = 200, body = PinnedFlow),
    (status = 400, body = FlowsProblem, description = "the query does not name a flow"),
    (status = 404, body = FlowsProblem, description = "the flow does not exist"),
    (status = 501, body = FlowsProblem, description = "flows come from a file"),
    (status = 503, body = FlowsProblem, description = "the owner of the key does not answer"),
))]
pub(super) async fn find(
    State(plane): State<Plane>,
    asked: Asked<FlowRecord>,
) -> Result<Json<PinnedFlow>, Refusal> {
    let flows = plane.flows()?;
    let Query(record) = asked?;
    let parser = flows.parser();
    let key = asked_key(parser, &record).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error))?;
    let Some((node, state)) = flows.find(key).await? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "the flow does not exist"));
    };
    let carried = flows.carried(node, state.uplink_teid).await?.map(Into::into);
    Ok(Json(PinnedFlow {
        node: u16::from(node.get()),
        base_station: parser.base_stations().get(usize::from(state.base_station.0)).copied(),
        uplink_teid: state.uplink_teid.get(),
        downlink_teid: state.downlink_teid.get(),
        qfi: state.qfi.map(Qfi::get),
        carried,
    }))
}

/// All flows of the cluster as a flow file that can be imported: CSV with a header, in the order of the flows' keyed
/// hashes. If flows are missing, the transfer is cut off, so that the client notices.
#[utoipa::path(get, path = "/v1/flows", responses(
    (status = 200, content_type = "text/csv", body = String),
    (status = 501, body = FlowsProblem, description = "flows come from a file"),
    (status = 503, body = FlowsProblem, description = "temporary failure: for example, another export is running"),
))]
pub(super) async fn export(State(plane): State<Plane>) -> Result<Response, Refusal> {
    let pieces = plane.flows()?.export().await?;
    let body = channel_body(pieces, |piece| piece);
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], body).into_response())
}
