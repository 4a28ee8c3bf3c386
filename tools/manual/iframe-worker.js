// A browser starts no worker for a page that was opened from a disk, and the manual's search runs in
// one. There, a hidden frame takes its place: the same script, on the page's own thread.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script src="${url}"></` + "script>";
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      document.body.append(this.frame);
    }

    async postMessage(message) {
      const data = structuredClone(message); // as between threads: what either keeps is its own
      await this.ready;
      const inside = this.frame.contentWindow;
      if (!inside) return; // it was ended meanwhile
      inside.postMessage = (answer) => {
        const copy = structuredClone(answer);
        setTimeout(() => this.onmessage?.({ data: copy }));
      };
      inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
