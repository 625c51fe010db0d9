/** The dependencies of this room. */
import type { CommandDeps } from '#domains/commands'

/** Each mission is a process of this kind under its own id. */
export const MISSION_KIND = 'mission'
export const MISSION_QUEUE = 'missions'

export type MissionDeps = { readonly commands: CommandDeps }
