import { render } from "preact";
import { App } from "./app";
import { begin } from "./session";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";

render(<App />, document.getElementById("page")!);
void begin();
