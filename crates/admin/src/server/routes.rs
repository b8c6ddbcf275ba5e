//! The routes of a node, and their schema.

use super::Limits;
use super::capture::CaptureBody;
use super::cluster;
use super::flows;
use super::graph;
use super::process;
use super::rejected::Rejected;
use crate::flows::Flows;
use crate::inspect::{CaptureError, Inspect, TraceError};
use crate::model::{CaptureRequest, Problem, Stats, Status, Trace, TraceRequest};
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
        description = "The state and counters of a running node, packet traces and captures, its flows, and the graph of its \
            workers. Counters start at zero when the node starts; fields may be added under /v1 at any time.",
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
        process::prometheus,
        process::healthz,
        process::readyz,
        schema
    )
)]
struct Schema;

/// A growing capture file.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it describes a body in the schema")]
struct Pcapng(Vec<u8>);

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// The serialiser's error.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

/// A schema in its published format.
///
/// # Errors
/// [`serde_json::Error`].
pub fn schema_text<S: OpenApi>() -> Result<String, serde_json::Error> {
    Ok(S::openapi().to_pretty_json()? + "\n")
}

/// The router of a node.
pub(super) fn router(node: Arc<dyn Inspect>, pinning: Option<Arc<dyn Flows>>, limits: Limits) -> Router {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/stats", get(stats))
        .route("/v1/trace", post(trace))
        .route("/v1/capture", post(capture))
        .route("/openapi.json", get(schema))
        .merge(flows::router(pinning, limits))
        .merge(graph::routes().with_state(Arc::new(node.graph())))
        .merge(process::routes().with_state(Arc::new(Arc::clone(&node))))
        .with_state(node);
    bounded(router, limits)
}

/// Adds what all routers share: answers for unknown paths and methods, and limits on bodies and time.
pub fn bounded(router: Router, limits: Limits) -> Router {
    router
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "unknown path: see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "unknown method: see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(limits.body_bytes))
        .layer(middleware::from_fn(move |request: Request, next: Next| async move {
            // The body of the answer is not included: a capture takes longer.
            let answer = tokio::time::timeout(limits.request_time, next.run(request)).await;
            answer.unwrap_or_else(|_| problem(StatusCode::REQUEST_TIMEOUT, "the request took too long"))
        }))
}

/// The answer to a failed request.
pub fn problem(code: StatusCode, error: impl Into<String>) -> Response {
    (code, Json(Problem { error: error.into() })).into_response()
}

/// Status of the node.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(State(node): Node) -> Json<Status> {
    Json(node.status())
}

/// Counters of the node.
#[utoipa::path(get, path = "/v1/stats", responses((status = 200, body = Stats)))]
async fn stats(State(node): Node) -> Json<Stats> {
    Json(node.stats())
}

/// Traces a packet: where it would go, and why. Nothing is sent or counted.
#[utoipa::path(post, path = "/v1/trace", request_body = TraceRequest, responses(
    (status = 200, body = Trace),
    (status = 400, body = Problem, description = "the request does not describe a packet"),
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

/// Captures frames in pcapng, until the count or the time is reached or the connection is closed. There are two
/// interfaces per port (rx, tx), and one for dropped packets, with their reasons as comments.
#[utoipa::path(post, path = "/v1/capture", request_body = CaptureRequest, responses(
    (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)),
    (status = 400, body = Problem, description = "the request selects nothing"),
    (status = 429, body = Problem, description = "too many captures are running"),
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

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}

/// An answer from JSON text.
pub fn json_text(text: Result<String, serde_json::Error>) -> Response {
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
