// The boards of `edgebench boards`, each with what its system and programs can have of its RAM; and storages by name.

import { get } from "./api.js";

export const MIB = 1024 * 1024;

// Without them the rest of the page still works.
export const { boards: BOARDS, storages: STORAGES } = await get("/api/boards").catch(() => ({ boards: [], storages: [] }));
