// What does not fit on a page as it stands: wider than the screen, blank, words over words, words cut off.
() => {
  const found = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) {
    const wide = [...document.querySelectorAll("main *")].filter(
      each => each.getBoundingClientRect().right > root.clientWidth + 1
        && !each.closest(".wrap, .timeline-box, .plot, svg, pre"));
    const last = wide.slice(-1).map(each => each.outerHTML.slice(0, 120));
    found.push(`wider than the screen: ${root.scrollWidth} px, ${last}`);
  }
  const main = document.querySelector("main");
  if (!main || main.innerText.trim().length < 20) found.push("blank");
  const isForEarsOnly = each => {
    const style = getComputedStyle(each);
    return style.clipPath.startsWith("inset(50") || style.clip.startsWith("rect(");
  };
  const isShown = each => {
    if (!each.checkVisibility({opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true}))
      return false;
    for (let at = each; at; at = at.parentElement) {
      if (isForEarsOnly(at) || ["sticky", "fixed"].includes(getComputedStyle(at).position)) return false;
    }
    return true;
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const aside = "svg, script, style, option, .vh, .skip, .plot, [popover]:not(:popover-open)";
  while (walker.nextNode() && texts.length < 6000) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest(aside) || !isShown(parent)) continue;
    let edge = null;
    for (let at = parent; at && !edge; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible" && at !== document.body) edge = at.getBoundingClientRect();
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const whole of range.getClientRects()) {
      const left = edge ? Math.max(whole.left, edge.left) : whole.left;
      const right = edge ? Math.min(whole.right, edge.right) : whole.right;
      const box = {left, right, top: whole.top, bottom: whole.bottom};
      if (right - left < 2 || box.bottom - box.top < 2) continue;
      texts.push({node, box});
    }
  }
  texts.sort((one, other) => one.box.top - other.box.top);
  for (let i = 0; i < texts.length && found.length < 8; i += 1) {
    for (let j = i + 1; j < texts.length && texts[j].box.top < texts[i].box.bottom - 3; j += 1) {
      const one = texts[i], other = texts[j];
      if (one.node === other.node) continue;
      const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const height = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (width > 3 && height > 5) {
        const said = [one, other].map(each => each.node.data.trim().slice(0, 40));
        found.push(`"${said[0]}" lies over "${said[1]}"`);
        break;
      }
    }
  }
  for (const each of document.querySelectorAll("main *")) {
    const style = getComputedStyle(each);
    if (!["hidden", "clip"].includes(style.overflowX) || style.textOverflow === "ellipsis") continue;
    if (each.closest(".vh, svg") || !isShown(each) || !each.innerText?.trim()) continue;
    if (each.scrollWidth > each.clientWidth + 2 && each.clientWidth > 2)
      found.push(`clipped: ${each.outerHTML.slice(0, 120)}`);
  }
  return found;
}
