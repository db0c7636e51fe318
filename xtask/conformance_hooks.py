"""What schemathesis does not know by itself: bodies of the protocols of other services. They are sent as they are made."""

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/logplex-1")
def as_it_is(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
