// Looks again at what goes on, takes over the parts of the page that are live, and loads the whole
// page anew at the end. Without scripts the page reloads itself.

const part = () => document.querySelector("[data-refresh]");

async function look() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (answer?.redirected) return location.reload();
  if (answer?.ok) {
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!fresh.querySelector("[data-refresh]")) return location.reload();
    for (const one of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(one.id);
      // What somebody is at stays as it is until the next look.
      if (other && !one.contains(document.activeElement)) one.replaceWith(document.adoptNode(other));
    }
  }
  again();
}

function again() {
  const found = part();
  if (found) setTimeout(look, 1000 * Number(found.dataset.refresh));
}

again();
