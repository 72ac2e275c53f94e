// The views of the page, in the order of their tabs. A new view is one module and one
// line.

import { attention } from "./views/attention.js";

export const VIEWS = [
  attention,
];
