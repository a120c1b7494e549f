/* In a meeting the arrow keys, and the keys of a remote control, go to the next item and back. */
"use strict";

(() => {
  const STEPS = { ArrowRight: "next", PageDown: "next", ArrowLeft: "previous", PageUp: "previous" };
  document.addEventListener("keydown", event => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const button = document.querySelector(`[data-step="${STEPS[event.key]}"]`);
    if (!button || typing || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    button.click();
  });
})();
