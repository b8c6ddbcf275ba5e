//! What is answered where, and the schema of it.

use super::Limits;
use super::capture::CaptureBody;
use super::cluster;
use super::flows;
use super::graph;
use super::rejected::Rejected;
use crate::flows::Flows;
use crate::inspect::{CaptureError, Inspect, TraceError};
use crate::metrics;
use crate::model::{CaptureRequest, Health, Problem, Stats, Status, Trace, TraceRequest};
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;

type Node = State<Arc<dyn Inspect>>;

/// The schema of the interface, as a JSON document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "ScaleBricks admin interface",
        description = "What a running node is, what it counts, where it would send a packet, what passes it, how \
            flows are pinned, and what the graph of its workers is made of. Counters count since the node started; fields may be added under /v1 at any time.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        contact()
    ),
    paths(
        status,
        stats,
        trace,
        capture,
        flows::pin,
        flows::move_to,
        flows::unpin,
        flows::find,
        flows::export,
        cluster::cluster,
        cluster::drain,
        cluster::undrain,
        cluster::forget,
        cluster::standby,
        cluster::verify,
        graph::view,
        graph::replace,
        graph::reload,
        graph::element,
        graph::read,
        graph::write,
        prometheus,
        healthz,
        readyz,
        schema
    )
)]
struct Schema;

/// A capture file as it grows.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it stands for a body in the schema")]
struct Pcapng(Vec<u8>);

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// What the serialiser says.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

/// A schema as it is published.
pub fn schema_text<S: OpenApi>() -> Result<String, serde_json::Error> {
    Ok(S::openapi().to_pretty_json()? + "\n")
}

/// Everything the server answers.
pub(super) fn router(node: Arc<dyn Inspect>, pinning: Option<Arc<dyn Flows>>, limits: Limits) -> Router {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/stats", get(stats))
        .route("/v1/trace", post(trace))
        .route("/v1/capture", post(capture))
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(schema))
        .merge(flows::router(pinning, limits))
        .merge(graph::routes().with_state(Arc::new(node.graph())))
        .with_state(node);
    bounded(router, limits)
}

/// What every router of the interface has: an answer to all questions, and an end to each.
pub fn bounded(router: Router, limits: Limits) -> Router {
    router
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "nothing is answered there: see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "not by this method: see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(limits.body_bytes))
        .layer(middleware::from_fn(move |request: Request, next: Next| async move {
            // The answer's body is no part of this: a capture's goes on.
            let answer = tokio::time::timeout(limits.request_time, next.run(request)).await;
            answer.unwrap_or_else(|_| problem(StatusCode::REQUEST_TIMEOUT, "the request took too long"))
        }))
}

/// What went wrong, as every answer says it.
pub fn problem(code: StatusCode, error: impl Into<String>) -> Response {
    (code, Json(Problem { error: error.into() })).into_response()
}

/// What the node is, and how it is.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(State(node): Node) -> Json<Status> {
    Json(node.status())
}

/// What the node has counted.
#[utoipa::path(get, path = "/v1/stats", responses((status = 200, body = Stats)))]
async fn stats(State(node): Node) -> Json<Stats> {
    Json(node.stats())
}

/// Where a packet would go, and why. Nothing is sent and nothing is counted.
#[utoipa::path(post, path = "/v1/trace", request_body = TraceRequest, responses(
    (status = 200, body = Trace),
    (status = 400, body = Problem, description = "the request makes no packet"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 503, body = Problem, description = "the node is still loading"),
))]
async fn trace(
    State(node): Node,
    request: Result<Json<TraceRequest>, JsonRejection>,
) -> Result<Json<Trace>, Rejected> {
    let Json(request) = request?;
    node.trace(&request).map(Json).map_err(|error| {
        let code = match error {
            TraceError::BadPacket(_) => StatusCode::BAD_REQUEST,
            TraceError::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            TraceError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Rejected::new(code, error.to_string())
    })
}

/// Frames as they pass, in pcapng, until there are as many as wanted, the time is over or the connection is closed.
/// Two interfaces a port (rx, tx), and one for dropped packets, with their reasons as comments.
#[utoipa::path(post, path = "/v1/capture", request_body = CaptureRequest, responses(
    (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)),
    (status = 400, body = Problem, description = "nothing would be captured"),
    (status = 429, body = Problem, description = "too many captures run"),
    (status = 503, body = Problem, description = "the node is still loading"),
))]
async fn capture(
    State(node): Node,
    request: Result<Json<CaptureRequest>, JsonRejection>,
) -> Result<Response, Rejected> {
    let Json(request) = request?;
    let stream = node.capture(&request).map_err(|error| {
        let code = match error {
            CaptureError::BadRequest(_) => StatusCode::BAD_REQUEST,
            CaptureError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            CaptureError::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        };
        Rejected::new(code, error.to_string())
    })?;
    let body = CaptureBody::new(stream, &request)
        .map_err(|error| Rejected::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/x-pcapng")], Body::new(body)).into_response())
}

/// The counters, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content_type = "application/openmetrics-text", body = String),
))]
async fn prometheus(State(node): Node) -> Response {
    match metrics::render(&node.status(), &node.stats(), node.is_ready()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
async fn healthz(State(node): Node) -> Json<Health> {
    Json(health(&*node))
}

/// Whether packets are forwarded: not while flows are loaded, not while the node is unfit, and not once it drains. Says why not.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Health), (status = 503, body = Health)))]
async fn readyz(State(node): Node) -> (StatusCode, Json<Health>) {
    let mut health = health(&*node);
    health.reasons = node.reasons();
    let code = if health.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health))
}

fn health(node: &dyn Inspect) -> Health {
    Health { state: node.status().state, is_ready: node.is_ready(), reasons: Vec::new() }
}

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}

/// Text that is JSON already.
pub fn json_text(text: Result<String, serde_json::Error>) -> Response {
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
