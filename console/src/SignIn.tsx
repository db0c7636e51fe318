// Signing in: a token is tried before it is kept.
import { useState } from "preact/hooks";
import { currentToken, messageOf } from "./api/client";
import { endedBecause, signIn } from "./api/session";
import { T } from "./text";
import { Alert, Field } from "./ui/parts";

export function SignIn() {
  const [value, setValue] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    const held = value.trim();
    // A header holds no other characters; the browser would refuse to send it.
    if (!/^[\x21-\x7e]+$/.test(held)) return setError(T.session.unreadable);
    setBusy(true);
    setError(null);
    currentToken(held)
      .then((current) => signIn(held, current))
      .catch((failure: unknown) => setError(messageOf(failure)))
      .finally(() => setBusy(false));
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <span class="brand"><i aria-hidden="true" />{T.name}</span>
        <h1>{T.session.title}</h1>
        {endedBecause.value && <Alert kind="warning" message={`${T.session.ended}: ${endedBecause.value}`} />}
        {/* Password managers keep a secret beside a name. A token has none, so it is that of the program. */}
        <input type="text" name="username" autocomplete="username" value={T.name} readOnly hidden />
        <Field label={T.session.token} hint={T.session.hint}>
          {(id) => <input id={id} type="password" name="password" autocomplete="current-password" spellcheck={false} autofocus value={value} onInput={(event) => setValue(event.currentTarget.value)} />}
        </Field>
        {error && <Alert message={error} />}
        <button type="submit" class="primary wide" disabled={busy || value.trim() === ""}>{busy ? T.session.checking : T.session.submit}</button>
        <p class="hint">{T.session.where}</p>
      </form>
    </main>
  );
}
