"""What schemathesis does not know by itself: bodies of the protocols of other services. They are sent as they are made."""

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/logplex-1", "application/vnd.fdo.journal")
def as_it_is(context, value):
    if isinstance(value, bytes):
        return value
    # What is no text has no form here, and is to be refused: as JSON it might be an event.
    return value.encode() if isinstance(value, str) else b"{"
