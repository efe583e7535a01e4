// A field that finds a query by a part of its name.
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../api/http";
import type { QueryList } from "../api/types";

const MOST = 12;

interface SearchProps {
  chosen: string | null;
  choose: (name: string | null) => void;
}

export function QuerySearch({ chosen, choose }: SearchProps): JSX.Element {
  const id = useId();
  const [text, setText] = useState(chosen ?? "");
  const [found, setFound] = useState<string[]>([]);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const asked = useRef(0);
  useEffect(() => setText(chosen ?? ""), [chosen]);

  const search = async (wanted: string) => {
    const turn = ++asked.current;
    const list = await get<QueryList>("v1/queries", { search: wanted, limit: MOST, sort: "name" }).catch(() => null);
    if (turn !== asked.current || !list) return;
    setFound(list.queries.map((query) => query.name));
    setAt(-1);
    setOpen(true);
  };
  const pick = (name: string | null) => {
    asked.current++;
    setOpen(false);
    setText(name ?? "");
    choose(name);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return void search(text);
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((at + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      if (open && found.length) pick(found[Math.max(0, at)]!);
      else if (!text) pick(null);
    } else if (event.key === "Escape") {
      if (open) setOpen(false);
      else pick(null);
    }
  };
  const isOpen = open && found.length > 0;
  return (
    <div class="search">
      <input
        type="text"
        role="combobox"
        aria-label="Light the path of a query"
        placeholder="Light a query’s path…"
        aria-expanded={isOpen}
        aria-controls={isOpen ? `${id}-found` : undefined}
        aria-activedescendant={isOpen && at >= 0 ? `${id}-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          if (event.currentTarget.value) void search(event.currentTarget.value);
          else pick(null);
        }}
        onKeyDown={pressed}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
      />
      {isOpen ? (
        <ul id={`${id}-found`} role="listbox" aria-label="Queries">
          {found.map((name, index) => (
            <li
              key={name}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => (event.preventDefault(), pick(name))}
            >
              {name}
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}
