//! A graph of elements over HTTP: what it is, its handlers, another configuration.

use super::Limits;
use super::routes::{bounded, json_text, problem, rejected, schema_text};
use crate::admin::graph::{Configuration, GraphControl, ReloadError};
use crate::admin::metrics;
use crate::admin::model::{
    ConfigurationProblem, ElementView, FaultView, GraphView, HandlerValue, Health, NodeState, Problem,
    ReplacedView,
};
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::body::Bytes;
use scalebricks_apps::click::directory::Refused;
use scalebricks_apps::click::live::ReplaceError;
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

type Graph = State<Arc<dyn GraphControl>>;

/// The routes of a graph, for whatever runs one.
pub(crate) fn routes() -> Router<Arc<dyn GraphControl>> {
    Router::new()
        .route("/v1/graph", get(view).put(replace).post(reload))
        .route("/v1/graph/{element}", get(element))
        .route("/v1/graph/{element}/{handler}", get(read).put(write))
}

/// Everything that a run of nothing but a graph answers.
pub(crate) fn router(graph: Arc<dyn GraphControl>, limits: Limits) -> Router {
    let router = routes()
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/openapi.json", get(schema))
        .with_state(graph);
    bounded(router, limits)
}

/// Calls something that may wait, on a thread where it keeps nobody else waiting.
async fn call<T: Send + 'static>(
    graph: Arc<dyn GraphControl>,
    call: impl FnOnce(&dyn GraphControl) -> T + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(move || call(&*graph)).await;
    done.map_err(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn refused(refused: &Refused) -> Response {
    let code = match refused {
        Refused::NoElement(_) | Refused::NoHandler { .. } => StatusCode::NOT_FOUND,
        Refused::WriteOnly(_) | Refused::ReadOnly(_) => StatusCode::CONFLICT,
        Refused::Value(_) => StatusCode::BAD_REQUEST,
        Refused::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        Refused::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
    };
    problem(code, refused.to_string())
}

fn not_replaced(error: &ReloadError) -> Response {
    let ReloadError::Replace(replace) = error else {
        return problem(StatusCode::CONFLICT, error.to_string());
    };
    let code = match replace {
        ReplaceError::Wrong(errors) => {
            let source = errors.source_text();
            let fault = |diagnostic: &scalebricks_click::Diagnostic| {
                let place = source.place(diagnostic.span.start);
                let problem = diagnostic.problem.to_string();
                FaultView { file: place.file, line: place.line, column: place.column, problem }
            };
            let faults = errors.list().iter().map(fault).collect();
            let problem = ConfigurationProblem { error: error.to_string(), faults };
            return (StatusCode::UNPROCESSABLE_ENTITY, Json(problem)).into_response();
        }
        ReplaceError::Control(_) => StatusCode::CONFLICT,
        ReplaceError::Busy(_) | ReplaceError::Ended => StatusCode::SERVICE_UNAVAILABLE,
        ReplaceError::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
    };
    problem(code, error.to_string())
}

/// The elements, how they are connected, and what they have counted.
#[utoipa::path(get, path = "/v1/graph", responses((status = 200, body = GraphView)))]
async fn view(State(graph): Graph) -> Result<Json<GraphView>, Response> {
    call(graph, GraphControl::view).await.map(Json)
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
    (status = 503, body = Problem, description = "too much waits for the worker, or the run has ended"),
    (status = 504, body = Problem, description = "the worker does not answer; it may yet take it over"),
))]
async fn replace(
    State(graph): Graph,
    named: Result<Query<Named>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ReplacedView>, Response> {
    let Query(Named { file }) =
        named.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let body = body.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let name = file.unwrap_or_else(|| "configuration".to_owned());
    replaced(graph, Configuration::Text { name, text: body.to_vec() }).await
}

/// Has the file that the run was started with read again, and run as it is now.
#[utoipa::path(post, path = "/v1/graph", responses(
    (status = 200, body = ReplacedView, description = "it runs"),
    (status = 409, body = Problem, description = "it cannot be read, or one of its control sockets not be listened to"),
    (status = 422, body = ConfigurationProblem, description = "something is wrong with it; the one that runs goes on"),
    (status = 503, body = Problem, description = "too much waits for the worker, or the run has ended"),
    (status = 504, body = Problem, description = "the worker does not answer; it may yet take it over"),
))]
async fn reload(State(graph): Graph) -> Result<Json<ReplacedView>, Response> {
    replaced(graph, Configuration::File).await
}

async fn replaced(graph: Arc<dyn GraphControl>, with: Configuration) -> Result<Json<ReplacedView>, Response> {
    let replaced = call(graph, |graph| graph.replace(with)).await?;
    replaced.map(Json).map_err(|error| not_replaced(&error))
}

/// An element: its connections, what it has counted, and its handlers.
#[utoipa::path(get, path = "/v1/graph/{element}",
    params(("element" = String, Path, description = "its name, or its number from 1")), responses(
    (status = 200, body = ElementView),
    (status = 400, body = Problem, description = "the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element"),
))]
async fn element(
    State(graph): Graph,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ElementView>, Response> {
    let Path(name) = path.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let element = call(graph, move |graph| graph.element(&name)).await?;
    element.map(Json).map_err(|error| refused(&error))
}

/// What a read handler may be told.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// What the handler is asked, where it takes something, as an address to look up.
    parameter: String,
}

/// Asks a read handler: one of the element's own, a counter, a drop reason, `class`, `name`, `config` or `handlers`.
#[utoipa::path(get, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name"), Asked), responses(
    (status = 200, body = HandlerValue),
    (status = 400, body = Problem, description = "the handler does not take the parameter, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element or handler"),
    (status = 409, body = Problem, description = "it can only be written"),
    (status = 503, body = Problem, description = "too much waits for the worker"),
    (status = 504, body = Problem, description = "the worker does not answer"),
))]
async fn read(
    State(graph): Graph,
    path: Result<Path<(String, String)>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<HandlerValue>, Response> {
    let Path((element, handler)) =
        path.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let Query(Asked { parameter }) =
        asked.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let value = call(graph, move |graph| graph.read(&element, &handler, &parameter)).await?;
    value.map(|value| Json(HandlerValue { value })).map_err(|error| refused(&error))
}

/// Gives a write handler a value, between two turns.
#[utoipa::path(put, path = "/v1/graph/{element}/{handler}", params(
    ("element" = String, Path, description = "the element's name, or its number from 1"),
    ("handler" = String, Path, description = "the handler's name")), request_body = HandlerValue, responses(
    (status = 200, body = HandlerValue, description = "it was taken"),
    (status = 400, body = Problem, description = "not a value that the handler takes, or the path is not UTF-8"),
    (status = 404, body = Problem, description = "there is no such element or handler"),
    (status = 409, body = Problem, description = "it can only be read"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 422, body = Problem, description = "the body is something else"),
    (status = 503, body = Problem, description = "too much waits for the worker"),
    (status = 504, body = Problem, description = "the worker does not answer; it may yet take the value"),
))]
async fn write(
    State(graph): Graph,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Json<HandlerValue>, JsonRejection>,
) -> Result<Json<HandlerValue>, Response> {
    let Path((element, handler)) =
        path.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let Json(value) = body.map_err(|rejection| rejected(&rejection))?;
    let given = value.value.clone();
    let written = call(graph, move |graph| graph.write(&element, &handler, given)).await?;
    written.map(|()| Json(value)).map_err(|error| refused(&error))
}

/// The counters of all elements, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content_type = "application/openmetrics-text", body = String),
))]
async fn prometheus(State(graph): Graph) -> Result<Response, Response> {
    let view = call(graph, GraphControl::view).await?;
    Ok(match metrics::render_graph(&view) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })
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
