// The view library: Preact with htm's templates, which need no build step.

import { h, render, Component, Fragment } from "./vendor/preact-11.2.0.mjs";
import htm from "./vendor/htm-3.1.1.mjs";

export const html = htm.bind(h);
export { render, Component, Fragment };
