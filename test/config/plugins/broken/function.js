/** A module whose default export is a function, as in other gateways. */
export default function middleware() {}
