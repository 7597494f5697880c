/**
 * The data folder and its SQLite databases, exported as `sluice-gateway/internal/store`: opening them, transactions, checked rows
 * and the errors of the store.
 */
export { openDataFolder } from "../store/data-folder.ts";
export { blob, number, oneOf, optionalNumber, optionalText, text, type Row } from "../store/row.ts";
export { isMoved, refuseMoved } from "../store/moved-marker.ts";
export { gatewayMarks } from "../store/postgres/gateway-rows.ts";
export { openDatabase, transaction } from "../store/sqlite.ts";
export { sqliteText, valueRows } from "../store/sql/dialect.ts";
export type { Tables } from "../store/sql/tables.ts";
export { explain, StoreError, type StoreErrorCode } from "../store/store-error.ts";
