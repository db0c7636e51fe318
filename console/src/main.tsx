// The start of the console.
import { render } from "preact";
import { App } from "./App";
import "./style/base.css";
import "./style/parts.css";
import "./style/explore.css";
import "./style/pages.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
