// A surface that is dragged with the pointer, zoomed with the wheel, two fingers or buttons. Only a transform changes
// while it moves: nothing is laid out or drawn again.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Part {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface CanvasProps {
  width: number;
  height: number;
  label: string;
  /** What should be in sight; all of it where there is none. */
  part: Part | null;
  /** What the signs mean, in a corner. */
  legend?: ComponentChildren;
  children: ComponentChildren;
}

interface View {
  x: number;
  y: number;
  scale: number;
}

const LEAST = 0.08;
const MOST = 2;
const MARGIN = 16;
const READABLE = 0.75; // less than this is not begun with,
const BARELY = 0.42; // unless it is a part that one wants to see as a whole

export function Canvas({ width, height, label, part, legend, children }: CanvasProps): JSX.Element {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const view = useRef<View>({ x: 0, y: 0, scale: 1 });
  const touched = useRef(false);

  const show = () => {
    const { x, y, scale } = view.current;
    if (inner.current) inner.current.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
  };
  const zoom = (factor: number, atX?: number, atY?: number) => {
    const box = outer.current!.getBoundingClientRect();
    const x = (atX ?? box.left + box.width / 2) - box.left;
    const y = (atY ?? box.top + box.height / 2) - box.top;
    const before = view.current;
    const scale = Math.min(MOST, Math.max(LEAST, before.scale * factor));
    const by = scale / before.scale;
    view.current = { scale, x: x - (x - before.x) * by, y: y - (y - before.y) * by };
    touched.current = true;
    show();
  };
  const fitted = (least: number, shown: Part | null = part) => {
    const box = outer.current;
    if (!box || !width || !height) return;
    const { left, top, ...size } = shown ?? { left: 0, top: 0, width, height };
    const room = { width: box.clientWidth - 2 * MARGIN, height: box.clientHeight - 2 * MARGIN };
    const scale = Math.max(Math.min(room.width / size.width, room.height / size.height, 1), least);
    const free = { x: room.width - size.width * scale, y: room.height - size.height * scale };
    view.current = {
      scale,
      x: MARGIN + Math.max(0, free.x / 2) - left * scale,
      y: MARGIN + Math.max(0, free.y / 2) - top * scale,
    };
    show();
  };
  const where = JSON.stringify(part);

  useEffect(() => {
    touched.current = false;
    fitted(part ? BARELY : READABLE);
  }, [where]);
  useEffect(() => {
    const watch = new ResizeObserver(() => {
      if (!touched.current) fitted(part ? BARELY : READABLE);
    });
    watch.observe(outer.current!);
    return () => watch.disconnect();
  }, [width, height, where]);
  useEffect(() => gestures(outer.current!, view, show, zoom, () => (touched.current = true)), []);

  /** What gets the focus by the keyboard is brought into sight. */
  const focused = (event: FocusEvent) => {
    const target = event.target as Element;
    if (!target.matches(":focus-visible")) return;
    const box = outer.current!.getBoundingClientRect();
    const at = target.getBoundingClientRect();
    outer.current!.scrollTo(0, 0); // the browser scrolls what it cannot know to be moved
    if (at.left < box.left || at.right > box.right) view.current.x += box.left + box.width / 2 - (at.left + at.right) / 2;
    if (at.top < box.top || at.bottom > box.bottom) view.current.y += box.top + box.height / 2 - (at.top + at.bottom) / 2;
    show();
  };

  return (
    <div class="canvas" ref={outer} onFocusIn={focused}>
      <div class="canvas-inner" ref={inner}>
        <svg width={width} height={height} role="group" aria-label={label}>
          {children}
        </svg>
      </div>
      {legend}
      <div class="canvas-tools" role="group" aria-label="Zoom">
        <button type="button" onClick={() => zoom(1.25)} aria-label="Zoom in">
          +
        </button>
        <button type="button" onClick={() => zoom(0.8)} aria-label="Zoom out">
          −
        </button>
        <button type="button" onClick={() => fitted(LEAST, null)}>
          All
        </button>
      </div>
    </div>
  );
}

/** Dragging, pinching and the wheel. */
function gestures(
  outer: HTMLDivElement,
  view: { current: View },
  show: () => void,
  zoom: (factor: number, x?: number, y?: number) => void,
  touched: () => void,
): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  const down = (event: PointerEvent) => {
    if ((event.target as Element).closest(".canvas-tools, .canvas-legend") || event.button > 0) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.x;
    const dy = event.clientY - before.y;
    if (!outer.classList.contains("dragging")) {
      if (Math.abs(dx) + Math.abs(dy) < 4) return; // it may be a click
      outer.classList.add("dragging");
      outer.setPointerCapture(event.pointerId);
    }
    touched();
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (others.length) {
      const other = others[0]![1];
      const apart = (x: number, y: number) => Math.max(1, Math.hypot(x - other.x, y - other.y));
      const factor = apart(event.clientX, event.clientY) / apart(before.x, before.y);
      return zoom(factor, (event.clientX + other.x) / 2, (event.clientY + other.y) / 2);
    }
    view.current.x += dx;
    view.current.y += dy;
    show();
  };
  const up = (event: PointerEvent) => {
    pointers.delete(event.pointerId);
    if (!pointers.size) setTimeout(() => outer.classList.remove("dragging"));
  };
  const click = (event: Event) => {
    if (outer.classList.contains("dragging")) event.stopPropagation();
  };
  const wheel = (event: WheelEvent) => {
    if ((event.target as Element).closest(".canvas-legend")) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX, event.clientY);
  };
  outer.addEventListener("pointerdown", down);
  outer.addEventListener("pointermove", move);
  outer.addEventListener("pointerup", up);
  outer.addEventListener("pointercancel", up);
  outer.addEventListener("click", click, true);
  outer.addEventListener("wheel", wheel, { passive: false });
  return () => {
    outer.removeEventListener("pointerdown", down);
    outer.removeEventListener("pointermove", move);
    outer.removeEventListener("pointerup", up);
    outer.removeEventListener("pointercancel", up);
    outer.removeEventListener("click", click, true);
    outer.removeEventListener("wheel", wheel);
  };
}
