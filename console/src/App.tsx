// The frame around all pages: who is signed in, where one can go, and the page itself.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, currentToken, isAbort, messageOf } from "./api/client";
import { endpoints, loadEndpoints } from "./api/document";
import { access, isPrivate, signIn, signOut, token } from "./api/session";
import { Explore } from "./explore/Explore";
import * as explore from "./explore/state";
import { inUtc, setUtc } from "./result/format";
import { address, route } from "./route";
import { SignIn } from "./SignIn";
import { T } from "./text";
import { isTaken, Keys } from "./ui/Keys";
import { isPartMissing, withPart } from "./ui/part";
import { Alert } from "./ui/parts";

interface Page {
  name: string;
  title: string;
  /** Only for tokens with the scope private. */
  manages: boolean;
  load: () => Promise<ComponentType>;
}

const PAGES: Page[] = [
  { name: "explore", title: T.nav.explore, manages: false, load: () => Promise.resolve(Explore) },
  { name: "endpoints", title: T.nav.endpoints, manages: true, load: () => import("./endpoints/Endpoints").then((module) => module.default) },
  { name: "sources", title: T.nav.sources, manages: true, load: () => import("./sources/Sources").then((module) => module.default) },
  { name: "tokens", title: T.nav.tokens, manages: true, load: () => import("./tokens/Tokens").then((module) => module.default) },
  { name: "status", title: T.nav.status, manages: true, load: () => import("./status/Status").then((module) => module.default) },
];

export function App() {
  useEffect(() => {
    explore.end();
    endpoints.value = null;
  }, [token.value]);
  if (token.value === null) return <SignIn />;
  return access.value === null ? <Resume held={token.value} /> : <Frame />;
}

/** A reload keeps the token of the tab; what it may do is asked again. */
function Resume({ held }: { held: string }) {
  const [error, setError] = useState<string | null>(null);
  const ask = (): void => {
    setError(null);
    currentToken(held)
      .then((current) => signIn(held, current))
      .catch((failure: unknown) => {
        if (failure instanceof Failure && failure.status === 401) signOut(failure.message);
        else setError(messageOf(failure));
      });
  };
  useEffect(ask, []);
  return (
    <main class="sign-in">
      {error ? <><Alert message={error} /><button type="button" onClick={ask}>{T.common.retry}</button></> : <p class="hint">{T.session.checking}</p>}
    </main>
  );
}

/** Signing out forgets what the session left in this browser: the address has the last query. */
function leave(): void {
  signOut();
  location.replace("#/");
}

function Frame() {
  const [error, setError] = useState<string | null>(null);
  const pages = PAGES.filter((page) => isPrivate.value || !page.manages);
  const page = pages.find((one) => one.name === route.value.path[0]) ?? (pages[0] as Page);
  const read = (): void => {
    setError(null);
    loadEndpoints().catch((failure: unknown) => isAbort(failure) || setError(messageOf(failure)));
  };
  useEffect(read, []);
  const [hasKeys, setKeys] = useState(false);
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      if (event.key !== "?" || isTaken(event)) return;
      event.preventDefault();
      setKeys(true);
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  useEffect(() => {
    document.title = `${page.title} · ${T.name}`;
    // On a phone the pages are a row that is scrolled.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [page]);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>{T.nav.skip}</a>
      <header class="top">
        <span class="brand"><i aria-hidden="true" />{T.name}</span>
        <nav aria-label={T.nav.label}>
          {pages.map((one) => (
            <a key={one.name} href={address([one.name])} aria-current={one === page ? "page" : undefined}>{one.title}</a>
          ))}
        </nav>
        <span class="spacer" />
        <button type="button" class="quiet keys-open" aria-label={T.keys.open} title={T.keys.open} onClick={() => setKeys(true)}>?</button>
        <button type="button" class="quiet zone" onClick={() => setUtc(!inUtc.value)} title={T.time.utc} aria-pressed={inUtc.value}>{inUtc.value ? "UTC" : T.time.local}</button>
        <span class="who" title={access.value?.scopes}>{access.value?.description || T.session.anonymous}</span>
        <button type="button" class="quiet" onClick={leave}>{T.session.signOut}</button>
      </header>
      {hasKeys && <Keys onClose={() => setKeys(false)} />}
      {isPartMissing.value && <div class="notice"><Alert message={T.errors.part} /><button type="button" onClick={() => location.reload()}>{T.common.reload}</button></div>}
      {error && <div class="page"><Alert message={error} /><button type="button" onClick={read}>{T.common.retry}</button></div>}
      {endpoints.value ? <Shown key={page.name} page={page} /> : !error && <main class="page"><p class="hint">{T.common.loading}</p></main>}
    </>
  );
}

/** The page, whose code comes when it is first opened. */
function Shown({ page }: { page: Page }) {
  const [Loaded, setLoaded] = useState<ComponentType | null>(null);
  useEffect(() => withPart(page.load(), (found) => setLoaded(() => found)), []);
  return Loaded ? <Loaded /> : <main class="page">{!isPartMissing.value && <p class="hint">{T.common.loading}</p>}</main>;
}
