// What can be written next: names that are declared, columns of those that the text names, functions, keywords.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { NamedColumns, Names } from "../api/types";

type Source = (context: CompletionContext) => CompletionResult | null;

export function completion(names: Names): Source {
  const relations = [...names.streams, ...names.tables, ...names.views];
  const fixed: Completion[] = [
    ...named(names.streams, "stream"),
    ...named(names.tables, "table"),
    ...named(names.views, "view"),
    ...names.queries.map((label): Completion => ({ label, detail: "query", type: "variable" })),
    ...names.functions.map(
      ({ name, signature }): Completion => ({ label: name, detail: signature ?? "", type: "function", apply: `${name}(` }),
    ),
    ...names.keywords.map((label): Completion => ({ label, type: "keyword", boost: -5 })),
  ];
  return (context) => {
    const dotted = context.matchBefore(/[\w"]+\.\w*/);
    const text = context.state.doc.toString();
    if (dotted) {
      const [owner = "", begun = ""] = dotted.text.replaceAll('"', "").split(".");
      const meant = relationOf(owner, text, relations);
      if (meant) return { from: context.pos - begun.length, options: columns([meant]), validFor: /^\w*$/ };
    }
    const word = context.matchBefore(/[\w.]+/);
    if (!word && !context.explicit) return null;
    const mentioned = relations.filter(({ name }) => mentions(text, name));
    return { from: word?.from ?? context.pos, options: [...columns(mentioned), ...fixed], validFor: /^[\w.]*$/ };
  };
}

function named(all: NamedColumns[], detail: string): Completion[] {
  return all.map(({ name }): Completion => ({ label: name, detail, type: "class", boost: 2 }));
}

function columns(relations: NamedColumns[]): Completion[] {
  const found = new Map<string, Completion>();
  for (const { name, columns: all } of relations)
    for (const column of all)
      found.set(column.name, { label: column.name, detail: `${column.type}, ${name}`, type: "property", boost: 5 });
  return [...found.values()];
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function mentions(text: string, name: string): boolean {
  return new RegExp(`(^|[^\\w])${escaped(name)}($|[^\\w])`, "i").test(text);
}

/** What stands before a dot: a name, or an alias for one (`Cars [RANGE 5] AS c`). */
function relationOf(owner: string, text: string, relations: NamedColumns[]): NamedColumns | undefined {
  const direct = relations.find(({ name }) => name.toLowerCase() === owner.toLowerCase());
  if (direct) return direct;
  return relations.find(({ name }) =>
    new RegExp(`(^|[^\\w])${escaped(name)}"?\\s*(\\[[^\\]]*\\]\\s*)?(AS\\s+)?${escaped(owner)}($|[^\\w])`, "i").test(text),
  );
}
