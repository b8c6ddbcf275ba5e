//! Routes of a graph of elements: its elements, their handlers, and replacing the configuration.

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
        description = "The elements of a running graph, their counters and handlers, and replacing its configuration. \
            A name with a slash or another special character is percent-encoded. Counters start at zero when the run starts; \
            fields may be added under /v1 at any time.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        contact()
    ),
    paths(view, replace, reload, element, read, write, prometheus, healthz, schema)
)]
struct Schema;

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// The serialiser's error.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

type Graph = State<Arc<ServedGraph>>;

/// The routes of a graph, for any process that runs one.
pub fn routes() -> Router<Arc<ServedGraph>> {
    Router::new()
        .route("/v1/graph", get(view).put(replace).post(reload))
        .route("/v1/graph/{element}", get(element))
        .route("/v1/graph/{element}/{handler}", get(read).put(write))
}

/// The router of a run of a graph.
pub fn router(graph: Arc<ServedGraph>, limits: Limits) -> Router {
    let router = routes()
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/openapi.json", get(schema))
        .with_state(graph);
    bounded(router, limits)
}

/// Runs a call that may block on another thread.
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

/// The answer for a wrong configuration, with the place of each fault.
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

/// The worker to ask.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Of {
    /// The worker whose counters are returned, from 0; without it they are summed over all workers.
    worker: Option<usize>,
}

/// The elements, their connections and their counters.
#[utoipa::path(get, path = "/v1/graph", params(Of), responses(
    (status = 200, body = GraphView),
    (status = 400, body = Problem, description = "an unknown option or value"),
    (status = 404, body = Problem, description = "no such worker"),
    (status = 503, body = Problem, description = "no worker runs yet"),
))]
async fn view(
    State(graph): Graph,
    of: Result<Query<Of>, QueryRejection>,
) -> Result<Json<GraphView>, Rejected> {
    let Query(Of { worker }) = of?;
    Ok(Json(call(graph, move |graph| graph.view(worker)).await??))
}

/// Options of a configuration in the body.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Named {
    /// Its name in errors; default `configuration`.
    file: Option<String>,
}

/// Replaces the configuration at the next turn. Elements of the same name and class keep their state.
#[utoipa::path(put, path = "/v1/graph", params(Named),
    request_body(content = String, description = "in the Click language", content_type = "text/plain"), responses(
    (status = 200, body = ReplacedView, description = "it is running"),
    (status = 400, body = Problem, description = "an unknown option or value"),
    (status = 409, body = Problem, description = "one of its control sockets cannot be opened"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 422, body = ConfigurationProblem, description = "the configuration is wrong; the old one keeps running"),
    (status = 501, body = Problem, description = "the program wires the graph itself: a node or a switch"),
    (status = 503, body = Problem, description = "the worker's queue is full, the run has ended, or the worker does not answer \
        and may still take it over"),
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

/// Reads the file of the run again, and runs it.
#[utoipa::path(post, path = "/v1/graph", responses(
    (status = 200, body = ReplacedView, description = "it is running"),
    (status = 409, body = Problem, description = "it cannot be read, or one of its control sockets cannot be opened"),
    (status = 422, body = ConfigurationProblem, description = "the configuration is wrong; the old one keeps running"),
    (status = 501, body = Problem, description = "the program wires the graph itself: a node or a switch"),
    (status = 503, body = Problem, description = "the worker's queue is full, the run has ended, or the worker does not answer \
        and may still take it over"),
))]
async fn reload(State(graph): Graph) -> Result<Json<ReplacedView>, Rejected> {
    Ok(Json(call(graph, |graph| graph.replace(Configuration::File)).await??))
}

/// An element: its connections, counters and handlers.
#[utoipa::path(get, path = "/v1/graph/{element}",
    params(("element" = String, Path, description = "its name, or its number from 1"), Of), responses(
    (status = 200, body = ElementView),
    (status = 400, body = Problem, description = "an unknown option or value, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "no such element or worker"),
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

/// Options of a read handler.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// The parameter of the handler, if it has one, such as an address to look up.
    parameter: String,
    /// The worker to ask, from 0. Without it, counters and drop reasons are summed over all workers, and worker 0
    /// answers all others; the answer contains the worker.
    worker: Option<usize>,
}

/// Reads a handler: one of the element's own, a counter, a drop reason, `class`, `name`, `config` or `handlers`.
/// Counters and drop reasons are read without asking a worker. An element's own handlers answer between two turns of
/// its worker.
#[utoipa::path(get, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name"), Asked), responses(
    (status = 200, body = HandlerAnswer),
    (status = 400, body = Problem, description = "the handler does not take the parameter, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "no such element, handler or worker"),
    (status = 409, body = Problem, description = "the handler can only be written"),
    (status = 503, body = Problem, description = "the worker does not answer within a second, its queue is full, or no worker runs yet"),
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

/// Writes a handler, on each worker between two turns.
#[utoipa::path(put, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name")), request_body = HandlerValue, responses(
    (status = 200, body = HandlerValue, description = "the value was accepted"),
    (status = 400, body = Problem, description = "the handler does not accept the value, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "no such element or handler"),
    (status = 409, body = Problem, description = "the handler can only be read"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 422, body = Problem, description = "the body has another format"),
    (status = 503, body = Problem, description = "a worker does not answer within a second and may still accept the value, a queue is full, \
        only some workers accepted the value, or no worker runs yet"),
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

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
async fn healthz() -> Json<Health> {
    Json(Health { state: NodeState::Ready, is_ready: true, reasons: Vec::new() })
}

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}
