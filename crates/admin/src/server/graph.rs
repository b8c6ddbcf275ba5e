//! A graph of elements over HTTP: what it is, its handlers, another configuration.

use super::Limits;
use super::rejected::Rejected;
use super::routes::{bounded, json_text, schema_text};
use crate::graph::{Configuration, ReloadError, ServedGraph};
use crate::metrics;
use crate::model::{
    ConfigurationProblem, ElementView, FaultView, GraphView, HandlerAnswer, HandlerValue, Health, NodeState,
    Problem, ReplacedView,
};
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::body::Bytes;
use scalebricks_apps::click::live::ReplaceError;
use scalebricks_apps::directory::RequestError;
use scalebricks_click::{Diagnostic, Errors};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::OpenApi;

/// The schema of the interface, as a JSON document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Admin interface of a ScaleBricks graph of elements",
        description = "What a graph that runs is made of, what its elements count, their handlers, and how another \
            configuration takes its place. A name with a slash or another special character is percent-encoded. Counters \
            count since the run began; fields may be added under /v1 at any time.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        contact()
    ),
    paths(view, replace, reload, element, read, write, prometheus, healthz, schema)
)]
struct Schema;

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// What the serialiser says.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

type Graph = State<Arc<ServedGraph>>;

/// The routes of a graph, for whatever runs one.
pub fn routes() -> Router<Arc<ServedGraph>> {
    Router::new()
        .route("/v1/graph", get(view).put(replace).post(reload))
        .route("/v1/graph/{element}", get(element))
        .route("/v1/graph/{element}/{handler}", get(read).put(write))
}

/// Everything that a run of nothing but a graph answers.
pub fn router(graph: Arc<ServedGraph>, limits: Limits) -> Router {
    let router = routes()
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/openapi.json", get(schema))
        .with_state(graph);
    bounded(router, limits)
}

/// Calls something that may wait, on a thread where it keeps nobody else waiting.
async fn call<T: Send + 'static>(
    graph: Arc<ServedGraph>,
    call: impl FnOnce(&ServedGraph) -> T + Send + 'static,
) -> Result<T, Rejected> {
    let done = tokio::task::spawn_blocking(move || call(&graph)).await;
    done.map_err(|error| Rejected::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

impl From<RequestError> for Rejected {
    fn from(refused: RequestError) -> Self {
        let code = match refused {
            RequestError::NoElement(_) | RequestError::NoHandler { .. } | RequestError::NoWorker { .. } => {
                StatusCode::NOT_FOUND
            }
            RequestError::WriteOnly(_) | RequestError::ReadOnly(_) => StatusCode::CONFLICT,
            RequestError::Value(_) => StatusCode::BAD_REQUEST,
            RequestError::NotRunning
            | RequestError::Busy(_)
            | RequestError::NoAnswer(_)
            | RequestError::InPart { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, refused.to_string())
    }
}

impl From<ReloadError> for Rejected {
    fn from(error: ReloadError) -> Self {
        let code = match &error {
            ReloadError::Fixed => StatusCode::NOT_IMPLEMENTED,
            ReloadError::Read { .. } | ReloadError::Replace(ReplaceError::Control(_)) => StatusCode::CONFLICT,
            ReloadError::Replace(ReplaceError::Wrong(errors)) => return wrong(&error, errors),
            ReloadError::Replace(ReplaceError::Busy(_) | ReplaceError::Ended | ReplaceError::NoAnswer) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self::new(code, error.to_string())
    }
}

/// A configuration with something wrong in it, by place.
fn wrong(error: &ReloadError, errors: &Errors) -> Rejected {
    let source = errors.source_text();
    let fault = |diagnostic: &Diagnostic| {
        let place = source.place(diagnostic.span.start);
        let problem = diagnostic.problem.to_string();
        FaultView { file: place.file, line: place.line, column: place.column, problem }
    };
    let faults = errors.list().iter().map(fault).collect();
    let problem = ConfigurationProblem { error: error.to_string(), faults };
    Rejected((StatusCode::UNPROCESSABLE_ENTITY, Json(problem)).into_response())
}

/// Which worker is asked.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Of {
    /// The worker whose counters are told, from 0; without it they are summed over all workers.
    worker: Option<usize>,
}

/// The elements, how they are connected, and what they have counted.
#[utoipa::path(get, path = "/v1/graph", params(Of), responses(
    (status = 200, body = GraphView),
    (status = 400, body = Problem, description = "an option that means nothing"),
    (status = 404, body = Problem, description = "there is no such worker"),
    (status = 503, body = Problem, description = "no worker runs yet"),
))]
async fn view(
    State(graph): Graph,
    of: Result<Query<Of>, QueryRejection>,
) -> Result<Json<GraphView>, Rejected> {
    let Query(Of { worker }) = of?;
    Ok(Json(call(graph, move |graph| graph.view(worker)).await??))
}

/// What a configuration that is sent may be told.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Named {
    /// What errors call it; `configuration` unless told otherwise.
    file: Option<String>,
}

/// Has another configuration run from the next turn on. Elements of the same name and class go on with what they had.
#[utoipa::path(put, path = "/v1/graph", params(Named),
    request_body(content = String, description = "in the Click language", content_type = "text/plain"), responses(
    (status = 200, body = ReplacedView, description = "it runs"),
    (status = 400, body = Problem, description = "an option that means nothing"),
    (status = 409, body = Problem, description = "one of its control sockets cannot be listened to"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 422, body = ConfigurationProblem, description = "something is wrong with it; the one that runs goes on"),
    (status = 501, body = Problem, description = "the program wires the graph itself: a node, a switch"),
    (status = 503, body = Problem, description = "too much waits for the worker, the run has ended, or the worker does not answer \
        and may yet take it over"),
))]
async fn replace(
    State(graph): Graph,
    named: Result<Query<Named>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ReplacedView>, Rejected> {
    let (Query(Named { file }), body) = (named?, body?);
    let name = file.unwrap_or_else(|| "configuration".to_owned());
    let with = Configuration::Text { name, text: body.to_vec() };
    Ok(Json(call(graph, |graph| graph.replace(with)).await??))
}

/// Has the file that the run was started with read again, and run as it is now.
#[utoipa::path(post, path = "/v1/graph", responses(
    (status = 200, body = ReplacedView, description = "it runs"),
    (status = 409, body = Problem, description = "it cannot be read, or one of its control sockets not be listened to"),
    (status = 422, body = ConfigurationProblem, description = "something is wrong with it; the one that runs goes on"),
    (status = 501, body = Problem, description = "the program wires the graph itself: a node, a switch"),
    (status = 503, body = Problem, description = "too much waits for the worker, the run has ended, or the worker does not answer \
        and may yet take it over"),
))]
async fn reload(State(graph): Graph) -> Result<Json<ReplacedView>, Rejected> {
    Ok(Json(call(graph, |graph| graph.replace(Configuration::File)).await??))
}

/// An element: its connections, what it has counted, and its handlers.
#[utoipa::path(get, path = "/v1/graph/{element}",
    params(("element" = String, Path, description = "its name, or its number from 1"), Of), responses(
    (status = 200, body = ElementView),
    (status = 400, body = Problem, description = "an option that means nothing, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element or worker"),
    (status = 503, body = Problem, description = "no worker runs yet"),
))]
async fn element(
    State(graph): Graph,
    path: Result<Path<String>, PathRejection>,
    of: Result<Query<Of>, QueryRejection>,
) -> Result<Json<ElementView>, Rejected> {
    let (Path(name), Query(Of { worker })) = (path?, of?);
    Ok(Json(call(graph, move |graph| graph.element(&name, worker)).await??))
}

/// What a read handler may be told.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// What the handler is asked, where it takes something, as an address to look up.
    parameter: String,
    /// The worker that is asked, from 0. Without it, counters and drop reasons are summed over all workers, and worker 0 is asked
    /// all else; the answer says so.
    worker: Option<usize>,
}

/// Asks a read handler: one of the element's own, a counter, a drop reason, `class`, `name`, `config` or `handlers`. Counters and
/// drop reasons are read without asking a worker. Handlers of elements answer between two turns of their worker.
#[utoipa::path(get, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name"), Asked), responses(
    (status = 200, body = HandlerAnswer),
    (status = 400, body = Problem, description = "the handler does not take the parameter, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element, handler or worker"),
    (status = 409, body = Problem, description = "it can only be written"),
    (status = 503, body = Problem, description = "the worker does not answer within a second, too much waits for it, or none runs yet"),
))]
async fn read(
    State(graph): Graph,
    path: Result<Path<(String, String)>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<HandlerAnswer>, Rejected> {
    let (Path((element, handler)), Query(Asked { parameter, worker })) = (path?, asked?);
    let read = move |graph: &ServedGraph| graph.read(&element, &handler, &parameter, worker);
    Ok(Json(call(graph, read).await??))
}

/// Gives a write handler a value, on all workers, each between two turns.
#[utoipa::path(put, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name")), request_body = HandlerValue, responses(
    (status = 200, body = HandlerValue, description = "it was taken"),
    (status = 400, body = Problem, description = "not a value that the handler takes, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element or handler"),
    (status = 409, body = Problem, description = "it can only be read"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 422, body = Problem, description = "the body is something else"),
    (status = 503, body = Problem, description = "a worker does not answer within a second and may yet take the value, too much waits \
        for one, only some took the value, or none runs yet"),
))]
async fn write(
    State(graph): Graph,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Json<HandlerValue>, JsonRejection>,
) -> Result<Json<HandlerValue>, Rejected> {
    let (Path((element, handler)), Json(HandlerValue { value })) = (path?, body?);
    let given = value.clone();
    call(graph, move |graph| graph.write(&element, &handler, &given)).await??;
    Ok(Json(HandlerValue { value }))
}

/// The counters of all elements, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content_type = "application/openmetrics-text", body = String),
))]
async fn prometheus(State(graph): Graph) -> Result<Response, Rejected> {
    let view = call(graph, |graph| graph.view(None)).await??;
    let text = metrics::render_graph(&view)
        .map_err(|error| Rejected::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
async fn healthz() -> Json<Health> {
    Json(Health { state: NodeState::Ready, is_ready: true, reasons: Vec::new() })
}

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}
