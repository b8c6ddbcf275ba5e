//! The routes of a switch, and their schema.

use super::super::running::{ChangeError, Running};
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use scalebricks_admin::metrics;
use scalebricks_admin::model::switch::{ChangeView, ChangedView, FoundView, LookupView, SwitchView};
use scalebricks_admin::model::{Health, Problem};
use scalebricks_admin::server::Limits;
use scalebricks_admin::server::graph;
use scalebricks_admin::server::process::{self, Process};
use scalebricks_admin::server::rejected::Rejected;
use scalebricks_admin::server::routes::{bounded, json_text, schema_text};
use std::fmt;
use std::sync::Arc;
use utoipa::OpenApi;

/// The schema of the interface, as a JSON document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Admin interface of a ScaleBricks switch",
        description = "The state of a running switch, the counters of its ports, its names, and the graph of its workers. \
            Counters start at zero when it starts; fields may be added under /v1 at any time.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        contact()
    ),
    paths(
        status,
        list,
        change,
        lookup,
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

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// The serialiser's error.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

type Switch = State<Arc<Running>>;

pub(super) fn router(switch: Arc<Running>, limits: Limits) -> Router {
    let router = Router::new()
        .route("/v1/switch", get(status))
        .route("/v1/switch/names", get(list).post(change))
        .route("/v1/switch/lookup", post(lookup))
        .route("/openapi.json", get(schema))
        .merge(graph::routes().with_state(Arc::new(switch.served_graph())))
        .merge(process::routes().with_state(Arc::clone(&switch) as Arc<dyn Process>))
        .with_state(switch);
    bounded(router, limits)
}

/// Status of the switch.
#[utoipa::path(get, path = "/v1/switch", responses((status = 200, body = SwitchView)))]
async fn status(State(switch): Switch) -> Json<SwitchView> {
    Json(switch.view())
}

/// All names, in the format of a names file.
#[utoipa::path(get, path = "/v1/switch/names", responses((status = 200, content_type = "text/csv", body = String)))]
async fn list(State(switch): Switch) -> Response {
    let names = switch.list().concat();
    ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], names).into_response()
}

/// Changes, one after another: all, or none.
#[utoipa::path(post, path = "/v1/switch/names", request_body = Vec<ChangeView>, responses(
    (status = 200, body = ChangedView),
    (status = 400, body = Problem, description = "a change is invalid"),
    (status = 409, body = Problem, description = "a name exists already, or does not exist"),
    (status = 413, body = Problem, description = "the body is too long"),
    (status = 500, body = Problem, description = "the log refused the changes, or their outcome is unknown"),
    (status = 503, body = Problem, description = "the switch has not read its log yet"),
))]
async fn change(
    State(switch): Switch,
    changes: Result<Json<Vec<ChangeView>>, JsonRejection>,
) -> Result<Json<ChangedView>, Rejected> {
    let Json(changes) = changes?;
    switch.change(&changes).await.map(Json).map_err(|error| answer(&error))
}

/// The action for frames with a name.
#[utoipa::path(post, path = "/v1/switch/lookup", request_body = LookupView, responses(
    (status = 200, body = FoundView),
    (status = 400, body = Problem, description = "not a valid name"),
))]
async fn lookup(
    State(switch): Switch,
    asked: Result<Json<LookupView>, JsonRejection>,
) -> Result<Json<FoundView>, Rejected> {
    let Json(LookupView { name }) = asked?;
    switch.lookup(&name).map(Json).map_err(|error| answer(&error))
}

fn answer(error: &ChangeError) -> Rejected {
    let code = match error {
        ChangeError::Bad(_) => StatusCode::BAD_REQUEST,
        ChangeError::Refused(..) => StatusCode::CONFLICT,
        ChangeError::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ChangeError::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Rejected::new(code, error.to_string())
}

impl Process for Running {
    fn metrics(&self) -> Result<String, fmt::Error> {
        metrics::render_switch(&self.view())
    }

    fn health(&self) -> Health {
        Health { state: self.state(), is_ready: self.is_ready(), reasons: Vec::new() }
    }
}

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}
