//! What is told of the cluster, and done with a node as a whole.

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

/// Differences that each node tells of, unless told otherwise.
const TOLD: u32 = 20;

/// Seconds in which nodes have to answer, unless told otherwise, and at most.
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

/// The node of this number.
fn node(number: u16) -> Result<NodeId, Refusal> {
    let node = u8::try_from(number).map(NodeId::new);
    let never = |_| Refusal::new(StatusCode::NOT_FOUND, format!("node {number} was never in the cluster"));
    node.map_err(never)
}

/// Who is in the cluster, and owns what.
#[utoipa::path(get, path = "/v1/cluster", responses(
    (status = 200, body = ClusterView),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
))]
pub(super) async fn cluster(State(plane): State<Plane>) -> Result<Json<ClusterView>, Refusal> {
    Ok(Json(plane.flows()?.cluster()))
}

/// Has a node get no flows any more, and pins those it has to its standby, or to all others that are alive and not drained. It stays
/// a member.
#[utoipa::path(post, path = "/v1/cluster/drain", params(Options), request_body = DrainRequest, responses(
    (status = 200, body = Drained, description = "all living nodes have applied it"),
    (status = 202, body = Drained, description = "it is in the log, and all will apply it"),
    (status = 404, body = FlowsProblem, description = "there is no such node"),
    (status = 408, body = Problem, description = "it took too long, and may be done in part; it can be sent again"),
    (status = 409, body = FlowsProblem, description = "no other node can take its flows"),
    (status = 422, body = FlowsProblem, description = "the body is something else"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "not now; it can be sent again"),
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

/// Lets a drained node get flows again. What it had stays where it is.
#[utoipa::path(post, path = "/v1/cluster/undrain", request_body = DrainRequest, responses(
    (status = 200, body = DrainRequest, description = "it is so now"),
    (status = 400, body = FlowsProblem, description = "there is no such node"),
    (status = 422, body = FlowsProblem, description = "the body is something else"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "not now; it can be sent again"),
))]
pub(super) async fn undrain(
    State(plane): State<Plane>,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Result<Json<DrainRequest>, Refusal> {
    let Json(request) = body?;
    plane.flows()?.undrain(node(request.node)?).await?;
    Ok(Json(request))
}

/// Gives a node up that does not come back as it was, whether the others can tell that it is dead or not.
#[utoipa::path(post, path = "/v1/cluster/forget", request_body = DrainRequest, responses(
    (status = 200, body = DrainRequest, description = "it is so now"),
    (status = 400, body = FlowsProblem, description = "there is no such node, or it is the one that is asked"),
    (status = 422, body = FlowsProblem, description = "the body is something else"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "not now; it can be sent again"),
))]
pub(super) async fn forget(
    State(plane): State<Plane>,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Result<Json<DrainRequest>, Refusal> {
    let Json(request) = body?;
    plane.flows()?.forget(node(request.node)?).await?;
    Ok(Json(request))
}

/// Sets who takes a node's flows when it dies or is drained.
#[utoipa::path(post, path = "/v1/cluster/standby", request_body = StandbyView, responses(
    (status = 200, body = StandbyView, description = "it is so now"),
    (status = 400, body = FlowsProblem, description = "there is no such node, or they are the same"),
    (status = 422, body = FlowsProblem, description = "the body is something else"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "not now; it can be sent again"),
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

/// What a verification may be told.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyOptions {
    /// Differences that each node names, 20 unless told otherwise, 1,000 at most; all are counted.
    differences: Option<u32>,
    /// Seconds in which nodes have to answer, 60 unless told otherwise, 3,600 at most.
    patience_s: Option<u32>,
}

/// Has all living nodes compare their tables with the logs. A line of JSON for each node, as soon as it has answered or the time is
/// over.
#[utoipa::path(post, path = "/v1/cluster/verify", params(VerifyOptions), responses(
    (status = 200, content_type = "application/x-ndjson", body = NodeVerdict),
    (status = 400, body = FlowsProblem, description = "an option that means nothing"),
    (status = 501, body = FlowsProblem, description = "the node has no control plane"),
    (status = 503, body = FlowsProblem, description = "not now; it can be sent again"),
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
    let verdicts = plane.flows()?.verify(options.differences.unwrap_or(TOLD), patience).await?;
    let body = channel_body(verdicts, |(node, verdict)| {
        let mut line = serde_json::to_vec(&NodeVerdict { node: u16::from(node.get()), verdict })
            .map_err(io::Error::other)?;
        line.push(b'\n');
        Ok(Bytes::from(line))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}
