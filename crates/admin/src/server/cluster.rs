//! Routes that show the cluster, and drain, forget or verify nodes.

use super::flows::{Asked, Options, Plane, Refusal, channel_body, code};
use crate::model::{ClusterView, DrainRequest, Drained, FlowsProblem, NodeVerdict, Problem, StandbyView};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::body::Bytes;
use scalebricks_control::membership::Standby;
use scalebricks_types::NodeId;
use serde::Deserialize;
use std::io;
use std::time::Duration;

/// Default number of differences that each node reports.
const DIFFERENCES: u32 = 20;

/// Seconds in which nodes must answer: default and maximum.
const PATIENCE_S: (u32, u32) = (60, 3_600);

/// The routes.
pub(super) fn router() -> Router<Plane> {
    Router::new()
        .route("/v1/cluster", get(cluster))
        .route("/v1/cluster/drain", post(drain))
        .route("/v1/cluster/undrain", post(undrain))
        .route("/v1/cluster/forget", post(forget))
        .route("/v1/cluster/standby", post(standby))
        .route("/v1/cluster/verify", post(verify))
}

/// The node with this number.
fn node(number: u16) -> Result<NodeId, Refusal> {
    let node = u8::try_from(number).map(NodeId::new);
    let never = |_| Refusal::new(StatusCode::NOT_FOUND, format!("node {number} was never in the cluster"));
    node.map_err(never)
}

/// The members of the cluster, and the partitions that they own.
#[utoipa::path(get, path = "/v1/cluster", responses(
    (status = 200, body = ClusterView),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
))]
pub(super) async fn cluster(State(plane): State<Plane>) -> Result<Json<ClusterView>, Refusal> {
    Ok(Json(plane.flows()?.cluster()))
}

/// Drains a node: it gets no new flows, and its flows move to its standby, or to all other nodes that are alive and not
/// drained. It stays a member.
#[utoipa::path(post, path = "/v1/cluster/drain", params(Options), request_body = DrainRequest, responses(
    (status = 200, body = Drained, description = "all living nodes have applied the change"),
    (status = 202, body = Drained, description = "the change is in the log, and all nodes will apply it"),
    (status = 404, body = FlowsProblem, description = "no such node"),
    (status = 408, body = Problem, description = "timeout: the change may be done in part; send it again"),
    (status = 409, body = FlowsProblem, description = "no other node can take its flows"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn drain(
    State(plane): State<Plane>,
    asked: Asked<Options>,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let flows = plane.flows()?;
    let Query(options) = asked?;
    let Json(request) = body?;
    let (accepted, heirs) = flows.drain(node(request.node)?).await?;
    let is_applied = options.wait.is_some() && plane.is_applied(flows, &accepted).await?;
    let heirs = heirs.into_iter().map(|heir| u16::from(heir.get())).collect();
    Ok((code(is_applied), Json(Drained { heirs, is_applied })).into_response())
}

/// Lets a drained node get flows again. Flows that moved away do not move back.
#[utoipa::path(post, path = "/v1/cluster/undrain", request_body = DrainRequest, responses(
    (status = 200, body = DrainRequest, description = "done"),
    (status = 400, body = FlowsProblem, description = "no such node"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn undrain(
    State(plane): State<Plane>,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Result<Json<DrainRequest>, Refusal> {
    let Json(request) = body?;
    plane.flows()?.undrain(node(request.node)?).await?;
    Ok(Json(request))
}

/// Gives up a node that will not return in its present incarnation, even if the other nodes have not detected that it
/// is dead.
#[utoipa::path(post, path = "/v1/cluster/forget", request_body = DrainRequest, responses(
    (status = 200, body = DrainRequest, description = "done"),
    (status = 400, body = FlowsProblem, description = "no such node, or it is the node that is asked"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn forget(
    State(plane): State<Plane>,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Result<Json<DrainRequest>, Refusal> {
    let Json(request) = body?;
    plane.flows()?.forget(node(request.node)?).await?;
    Ok(Json(request))
}

/// Sets the standby of a node, which takes its flows when it dies or is drained.
#[utoipa::path(post, path = "/v1/cluster/standby", request_body = StandbyView, responses(
    (status = 200, body = StandbyView, description = "done"),
    (status = 400, body = FlowsProblem, description = "no such node, or both are the same"),
    (status = 422, body = FlowsProblem, description = "the body has another format"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn standby(
    State(plane): State<Plane>,
    body: Result<Json<StandbyView>, JsonRejection>,
) -> Result<Json<StandbyView>, Refusal> {
    let Json(request) = body?;
    let to = request.to.map(node).transpose()?.map_or(Standby::All, Standby::One);
    plane.flows()?.set_standby(node(request.node)?, to).await?;
    Ok(Json(request))
}

/// Options of a verification.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyOptions {
    /// Differences that each node reports: default 20, maximum 1,000. All are counted.
    differences: Option<u32>,
    /// Seconds in which nodes must answer: default 60, maximum 3,600.
    patience_s: Option<u32>,
}

/// Makes all living nodes compare their tables with the logs. Returns a line of JSON per node, as soon as it has
/// answered or the time is over.
#[utoipa::path(post, path = "/v1/cluster/verify", params(VerifyOptions), responses(
    (status = 200, content_type = "application/x-ndjson", body = NodeVerdict),
    (status = 400, body = FlowsProblem, description = "an unknown option or value"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "temporary failure; send it again"),
))]
pub(super) async fn verify(
    State(plane): State<Plane>,
    asked: Asked<VerifyOptions>,
) -> Result<Response, Refusal> {
    let Query(options) = asked?;
    let patience_s = options.patience_s.unwrap_or(PATIENCE_S.0);
    if !(1..=PATIENCE_S.1).contains(&patience_s) {
        let error = format!("patience_s {patience_s} is not 1 to {}", PATIENCE_S.1);
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error));
    }
    let patience = Duration::from_secs(patience_s.into());
    let verdicts = plane.flows()?.verify(options.differences.unwrap_or(DIFFERENCES), patience).await?;
    let body = channel_body(verdicts, |(node, verdict)| {
        let mut line = serde_json::to_vec(&NodeVerdict { node: u16::from(node.get()), verdict })
            .map_err(io::Error::other)?;
        line.push(b'\n');
        Ok(Bytes::from(line))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}
