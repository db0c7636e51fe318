//! The interface `exchange` of the contract: reading the request, building the response.

use std::collections::BTreeMap;

use tidegate_model::{Code, Failure, Quota};
use wasmtime::component::Resource;

use crate::bindings::tidegate::endpoint::{exchange, types as wit};
use crate::host::State;
use crate::response::{BodyEntry, RequestEntry, ResponseEntry};
use crate::result_set::ResultSet;
use crate::wit_convert::{json_fault, value_out};

const MAX_NOTES: usize = 16;

const MAX_NOTE_KEY: usize = 64;

const MAX_NOTE_VALUE: usize = 1024;

impl State {
    fn respond(&mut self, body: BodyEntry) -> wasmtime::Result<Resource<ResponseEntry>> {
        self.push(ResponseEntry { body, max_age: None, notes: BTreeMap::new() })
    }

    /// The failure for a document that is too long or not JSON.
    fn refuse_document(&self, json: &str) -> Option<Failure> {
        let most = self.budget.limits().answer_bytes;
        if json.len() > most {
            let message = format!("the document has {} bytes; at most {most} are allowed", json.len());
            return Some(Failure::new(Code::LimitExceeded, message).quota(Quota::Bytes));
        }
        let fault = json_fault(json)?;
        Some(Failure::new(Code::ComponentFailed, format!("the component's document is no JSON: {fault}")))
    }
}

impl exchange::Host for State {}

impl exchange::HostRequest for State {
    fn argument(&mut self, request: Resource<RequestEntry>, name: String) -> wasmtime::Result<Option<wit::Value>> {
        self.enter()?;
        let now = self.table.get(&request)?.received_at;
        Ok(self.arguments.get(&name).map(|value| value_out(value, now)))
    }

    fn names(&mut self, request: Resource<RequestEntry>) -> wasmtime::Result<Vec<String>> {
        self.enter()?;
        self.table.get(&request)?;
        Ok(self.arguments.keys().cloned().collect())
    }

    fn received_at(&mut self, request: Resource<RequestEntry>) -> wasmtime::Result<i64> {
        self.enter()?;
        self.saw_time = true;
        Ok(self.table.get(&request)?.received_at)
    }

    fn drop(&mut self, request: Resource<RequestEntry>) -> wasmtime::Result<()> {
        self.enter()?;
        self.take(request)?;
        Ok(())
    }
}

impl exchange::HostResponse for State {
    fn rows(&mut self, input: Resource<ResultSet>) -> wasmtime::Result<Resource<ResponseEntry>> {
        self.enter()?;
        let rows = self.take(input)?;
        self.respond(BodyEntry::Rows(rows))
    }

    fn document(&mut self, json: String) -> wasmtime::Result<Result<Resource<ResponseEntry>, wit::Failure>> {
        self.enter()?;
        match self.refuse_document(&json) {
            Some(failure) => Ok(Err(self.fail(failure))),
            None => {
                let held = match self.budget.reserve(json.len()) {
                    Ok(held) => held,
                    Err(failure) => return Ok(Err(self.fail(failure))),
                };
                Ok(Ok(self.respond(BodyEntry::Document { json, _held: held })?))
            }
        }
    }

    fn empty(&mut self) -> wasmtime::Result<Resource<ResponseEntry>> {
        self.enter()?;
        self.respond(BodyEntry::Empty)
    }

    fn max_age(&mut self, response: Resource<ResponseEntry>, seconds: u32) -> wasmtime::Result<()> {
        self.enter()?;
        let max_age = &mut self.table.get_mut(&response)?.max_age;
        *max_age = Some(max_age.map_or(seconds, |earlier| earlier.min(seconds)));
        Ok(())
    }

    fn note(&mut self, response: Resource<ResponseEntry>, key: String, value: String) -> wasmtime::Result<()> {
        self.enter()?;
        let notes = &mut self.table.get_mut(&response)?.notes;
        let legal = key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        let fits = (1..=MAX_NOTE_KEY).contains(&key.len()) && value.len() <= MAX_NOTE_VALUE;
        let room = notes.len() < MAX_NOTES || notes.contains_key(&key);
        if legal && fits && room {
            notes.insert(key, value);
        }
        Ok(())
    }

    fn drop(&mut self, response: Resource<ResponseEntry>) -> wasmtime::Result<()> {
        self.enter()?;
        self.take(response)?;
        Ok(())
    }
}
