// CodeMirror for CQL. It lives in a shadow tree: there it takes its styles as constructed style sheets, so that the page's
// policy need not allow inline styles.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, LanguageSupport, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { CheckError, Names } from "../api/types";
import { completion } from "./completion";

const KEYWORDS =
  "select from where group by having order limit union all except intersect distinct as on join left right full outer inner cross " +
  "and or not in is null like between exists case when then else end cast create drop register query stream table view sink template " +
  "insert into values delete update set show explain analyze advance to using options timestamp tick interval range rows now unbounded " +
  "partition slide tumble begin istream dstream rstream eager lazy none mode retain heartbeat true false with for if replace";
const TYPES = "boolean tinyint smallint int bigint float double decimal string binary date timestamp timestamp_ntz interval";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: [tags.standard(tags.name), tags.function(tags.name)], color: "var(--code-function)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--muted)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--raised)", fontSize: "14px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selection)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75", fontStyle: "normal" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnosticText": { whiteSpace: "pre-wrap" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "4px" },
  // Its marker is an image in a data: URL, which the policy does not allow.
  ".cm-lint-marker": { width: "0.7em", height: "0.7em", borderRadius: "50%", margin: "0.45em 0.1em" },
  ".cm-lint-marker-error": { content: '""', backgroundColor: "var(--bad)" },
});

export interface Code {
  text(): string;
  replace(text: string): void;
  learn(names: Names): void;
  mark(errors: readonly CheckError[]): void;
  showPlace(error: CheckError): void;
  close(): void;
}

interface Options {
  text: string;
  changed: (text: string) => void;
  submit: () => void;
}

export function openCode(host: HTMLElement, { text, changed, submit }: Options): Code {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        lintGutter(),
        tooltips({ position: "fixed" }),
        placeholder("SELECT … FROM … [RANGE …]"),
        syntaxHighlighting(colours),
        look,
        language.of(support(null)),
        // Tab goes on to the next part of the page, as everywhere: those without a mouse must be able to leave.
        keymap.of([
          { key: "Mod-Enter", run: () => (submit(), true), preventDefault: true },
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...completionKeymap,
        ]),
        EditorView.contentAttributes.of({ "aria-label": "CQL", "aria-describedby": "editor-help" }),
        EditorView.lineWrapping,
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    replace: (now) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: now } }),
    learn: (names) => view.dispatch({ effects: language.reconfigure(support(names)) }),
    mark: (errors) => view.dispatch(setDiagnostics(view.state, errors.map((error) => diagnostic(view.state, error)))),
    showPlace(error) {
      view.dispatch({ selection: { anchor: range(view.state, error)[0] }, scrollIntoView: true });
      view.focus();
    },
    close: () => view.destroy(),
  };
}

function support(names: Names | null): LanguageSupport {
  const dialect = SQLDialect.define({
    keywords: names ? `${KEYWORDS} ${names.keywords.join(" ").toLowerCase()}` : KEYWORDS,
    types: TYPES,
    builtin: names?.functions.map(({ name }) => name.toLowerCase()).join(" ") ?? "",
    hashComments: false,
    backslashEscapes: false,
    doubleQuotedStrings: false,
    identifierQuotes: '"`',
    operatorChars: "*+-%<>!=&|/?",
  });
  const source: CompletionSource | null = names ? completion(names) : null;
  return new LanguageSupport(dialect.language, [autocompletion(source ? { override: [source], icons: false } : {})]);
}

function range(state: EditorState, error: CheckError): [number, number] {
  const length = state.doc.length;
  const place = (line: number, column: number) => {
    const at = state.doc.line(Math.min(Math.max(1, line), state.doc.lines));
    return Math.min(at.from + Math.max(0, column - 1), at.to);
  };
  if (!error.line) return [0, length];
  const from = place(error.line, error.column ?? 1);
  const to = error.end_line ? place(error.end_line, error.end_column ?? 1) : from;
  if (to > from) return [from, to];
  const word = state.wordAt(from);
  return word ? [word.from, word.to] : [Math.min(from, Math.max(0, length - 1)), Math.min(length, from + 1)];
}

function diagnostic(state: EditorState, error: CheckError): Diagnostic {
  const [from, to] = range(state, error);
  const message = [error.message, error.detail, error.hint ? `Hint: ${error.hint}` : null].filter(Boolean).join("\n");
  return { from, to, severity: "error", message };
}
