// A browser starts no worker for a page that is read from a folder. The search then works in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
