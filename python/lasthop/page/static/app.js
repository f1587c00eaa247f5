// The page: selected view, and state in the address.

import { html, render, Component } from "./view.js";
import { ask, findToken, useToken } from "./api.js";
import { Browse } from "./browse.js";
import { look } from "./charts.js";
import { Inside } from "./inside.js";
import { Play, Player, question } from "./play.js";
import { useMetrics } from "./quantity.js";
import { decode, encode } from "./state.js";
import { Take } from "./take.js";

const VIEWS = [["play", "Live view"], ["inside", "Trace view"], ["browse", "Browse"]];

class Page extends Component {
  constructor(props) {
    super(props);
    this.state = { shown: props.begin, isTaking: false };
    this.player = new Player(() => this.forceUpdate());
    this.set = this.set.bind(this);
  }

  componentDidMount() {
    this.follow();
    this.onHash = async () => {
      const found = await decode(location.hash.slice(1));
      if (found) this.setState({ shown: { ...this.state.shown, ...found } }, () => this.follow());
    };
    addEventListener("hashchange", this.onHash);
    window.lasthop = { player: this.player, page: this };
  }

  componentDidUpdate() {
    const heading = { play: "Live view", inside: "Trace view", browse: "Browse" }[this.state.shown.view];
    document.title = `${heading} – Lasthop`;
  }

  set(shown) {
    this.setState({ shown }, () => this.follow());
  }

  /** Requests the data of the current view and stores the state in the address. */
  follow() {
    const { shown } = this.state;
    if (shown.view === "play") this.player.ask(question(shown));
    else this.player.stop();
    clearTimeout(this.saving);
    this.saving = setTimeout(async () => {
      const { presets, schema, ...kept } = shown;
      history.replaceState(null, "", `#${await encode(kept)}`);
    }, 250);
  }

  render({ about }, { shown, isTaking }) {
    const views = { play: Play, inside: Inside, browse: Browse };
    const View = views[shown.view] || Play;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to results</a>
      <header>
        <h1>Lasthop</h1>
        <nav aria-label="Views">${VIEWS.map(([key, name]) => html`<button type="button" aria-current=${shown.view === key ? "page" : undefined}
          onClick=${() => this.set({ ...shown, view: key })}>${name}</button>`)}</nav>
        <button type="button" class="take" aria-expanded=${isTaking} aria-controls="take" onClick=${() => this.setState({ isTaking: !isTaking })}>Export</button>
      </header>
      <main id="main" tabindex="-1">
        ${isTaking && html`<${Take} state=${shown} player=${this.player} onClose=${() => this.setState({ isTaking: false })} />`}
        <${View} state=${shown} set=${this.set} about=${about} player=${this.player} />
      </main>
      <footer class="soft">lasthop ${about.version}, in ${about.folder}/ on ${about.cores} ${about.cores === 1 ? "core" : "cores"}</footer>`;
  }
}

/** Shown without a valid token: reports the problem and accepts a token. */
const Locked = ({ error }) => html`<main class="locked"><h1>Lasthop</h1>
  <p>${error || "This address lacks its token."} Open the address printed by <code>lasthop explore</code>, or enter it here:</p>
  <label for="token">address or token</label> <input id="token" autocomplete="off" onChange=${(event) => {
    const text = event.target.value.trim();
    const match = /token=([\w-]+)/.exec(text);
    useToken(match ? match[1] : text);
    begin();
  }} /></main>`;

async function begin() {
  const place = document.getElementById("app");
  let about;
  try {
    about = await ask("begin");
  } catch (error) {
    place.replaceChildren();
    render(html`<${Locked} error=${error.status === 401 ? "The token is invalid." : error.message} />`, place);
    return;
  }
  look.colours = about.colours;
  useMetrics(about.metrics);
  const { scenario, alternatives, seed, view, campaign } = about;
  const usual = { view, scenario, alternatives, seed, edit: -1, metrics: null, preset: "" };
  if (campaign) usual.browse = { folder: campaign };
  const kept = await decode(location.hash.slice(1));
  place.replaceChildren();
  render(html`<${Page} about=${about} begin=${{ ...usual, ...kept }} />`, place);
}

if (await findToken()) begin();
else {
  const place = document.getElementById("app");
  place.replaceChildren();
  render(html`<${Locked} />`, place);
}
