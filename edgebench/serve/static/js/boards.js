// The boards of `edgebench boards`, each with what its system and programs can have of its RAM.

import { get } from "./api.js";

export const MIB = 1024 * 1024;

// Without them the rest of the page still works.
export const { boards: BOARDS } = await get("/api/boards").catch(() => ({ boards: [] }));
