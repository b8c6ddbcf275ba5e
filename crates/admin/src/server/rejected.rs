//! The answers to failed requests.

use super::routes::problem;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// The answer to a failed request.
#[derive(Debug)]
pub struct Rejected(pub(super) Response);

impl Rejected {
    /// An answer with this status and reason.
    pub fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self(problem(code, error))
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        self.0
    }
}

/// Implements `From` for the rejections of extractors, so that `?` turns them into answers.
macro_rules! from_rejections {
    ($answer:ident: $($rejection:ident),+) => {
        $(impl From<$rejection> for $answer {
            fn from(rejection: $rejection) -> Self {
                Self::new(rejection.status(), rejection.body_text())
            }
        })+
    };
}
pub(super) use from_rejections;

from_rejections!(Rejected: BytesRejection, JsonRejection, PathRejection, QueryRejection);
