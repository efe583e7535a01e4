import { Component, type ComponentType, h, type JSX } from "preact";

/** A component that is drawn again only when one of its properties is another one. */
export function memo<P extends object>(view: (props: P) => JSX.Element): ComponentType<P> {
  const View = view as ComponentType<P>;
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as Record<string, unknown>;
      const now = next as Record<string, unknown>;
      return Object.keys(now).some((name) => before[name] !== now[name]);
    }
    override render(): JSX.Element {
      return h(View, this.props as P & JSX.IntrinsicAttributes);
    }
  };
}
