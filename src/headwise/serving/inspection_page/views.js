// The views of the page, in the order of their tabs. A new view is one module and one
// line.

export const VIEWS = [];
