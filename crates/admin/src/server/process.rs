//! What every long-running process answers: metrics and health.

use super::routes::problem;
use crate::inspect::Inspect;
use crate::metrics;
use crate::model::Health;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::fmt;
use std::sync::Arc;

/// A process with an admin interface.
pub trait Process: Send + Sync {
    /// Its counters, in the format of `OpenMetrics`.
    ///
    /// # Errors
    /// [`fmt::Error`] if a value cannot be written.
    fn metrics(&self) -> Result<String, fmt::Error>;

    /// Its state; the reasons only if it is not ready.
    fn health(&self) -> Health;
}

impl Process for Arc<dyn Inspect> {
    fn metrics(&self) -> Result<String, fmt::Error> {
        metrics::render(&self.status(), &self.stats(), self.is_ready())
    }

    fn health(&self) -> Health {
        Health { state: self.status().state, is_ready: self.is_ready(), reasons: self.reasons() }
    }
}

type Served = State<Arc<dyn Process>>;

/// The routes.
pub fn routes() -> Router<Arc<dyn Process>> {
    Router::new()
        .route("/metrics", get(prometheus))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
}

/// The counters, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content_type = "application/openmetrics-text", body = String),
))]
pub async fn prometheus(State(process): Served) -> Response {
    match process.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
pub async fn healthz(State(process): Served) -> Json<Health> {
    Json(Health { reasons: Vec::new(), ..process.health() })
}

/// Whether packets are forwarded and everything that this needs is loaded, with the reasons if not, where they are known.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub async fn readyz(State(process): Served) -> (StatusCode, Json<Health>) {
    let health = process.health();
    let code = if health.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health))
}
