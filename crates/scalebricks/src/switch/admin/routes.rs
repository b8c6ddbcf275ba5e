//! What is answered where.

use super::super::running::{ChangeError, Running};
use super::super::view::{ChangeView, ChangedView, FoundView, LookupView, SwitchView};
use crate::admin::metrics;
use crate::admin::model::Health;
use crate::admin::server::Limits;
use crate::admin::server::routes::{bounded, problem, rejected};
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;

type Switch = State<Arc<Running>>;

pub(super) fn router(switch: Arc<Running>, limits: Limits) -> Router {
    let router = Router::new()
        .route("/v1/switch", get(status))
        .route("/v1/switch/names", get(list).post(change))
        .route("/v1/switch/lookup", post(lookup))
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(switch);
    bounded(router, limits)
}

async fn status(State(switch): Switch) -> Json<SwitchView> {
    Json(switch.view())
}

/// All names, as a file has them.
async fn list(State(switch): Switch) -> Response {
    let names = switch.list().concat();
    ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], names).into_response()
}

/// Changes, one after another: all, or none.
async fn change(
    State(switch): Switch,
    changes: Result<Json<Vec<ChangeView>>, JsonRejection>,
) -> Result<Json<ChangedView>, Response> {
    let Json(changes) = changes.map_err(|rejection| rejected(&rejection))?;
    switch.change(&changes).await.map(Json).map_err(|error| answer(&error))
}

async fn lookup(
    State(switch): Switch,
    asked: Result<Json<LookupView>, JsonRejection>,
) -> Result<Json<FoundView>, Response> {
    let Json(LookupView { name }) = asked.map_err(|rejection| rejected(&rejection))?;
    switch.lookup(&name).map(Json).map_err(|error| answer(&error))
}

fn answer(error: &ChangeError) -> Response {
    let code = match error {
        ChangeError::Bad(_) => StatusCode::BAD_REQUEST,
        ChangeError::Refused(..) => StatusCode::CONFLICT,
        ChangeError::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ChangeError::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    problem(code, error.to_string())
}

async fn prometheus(State(switch): Switch) -> Response {
    match metrics::render_switch(&switch.view()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn healthz(State(switch): Switch) -> Json<Health> {
    Json(health(&switch))
}

async fn readyz(State(switch): Switch) -> (StatusCode, Json<Health>) {
    let health = health(&switch);
    let code = if health.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health))
}

fn health(switch: &Running) -> Health {
    Health { state: switch.state(), is_ready: switch.is_ready() }
}
