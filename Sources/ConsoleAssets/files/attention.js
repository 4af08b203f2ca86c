// Whether somebody sits before the page: for nobody it is not asked again and again how things are.

// In milliseconds.
const patience = 600000;
// Somebody who reads along moves the page or the pointer, and may press nothing for long.
const signs = ["pointerdown", "pointermove", "keydown", "wheel"];

export class Attention {
  // `onSign` is called at every sign, `onReturn` when somebody comes back to the page, or the network does.
  constructor({ onSign, onReturn }) {
    this.last = Date.now();
    this.sign = () => {
      this.last = Date.now();
      onSign();
    };
    this.comeBack = () => {
      if (document.hidden) return;
      this.last = Date.now();
      onReturn();
    };
    for (const type of signs) document.addEventListener(type, this.sign, { passive: true });
    document.addEventListener("visibilitychange", this.comeBack);
    window.addEventListener("online", this.comeBack);
  }

  get isGone() {
    return Date.now() - this.last > patience;
  }

  close() {
    for (const type of signs) document.removeEventListener(type, this.sign);
    document.removeEventListener("visibilitychange", this.comeBack);
    window.removeEventListener("online", this.comeBack);
  }
}
