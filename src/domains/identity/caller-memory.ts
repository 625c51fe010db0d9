/**
 * Remembers callers and their workspaces for a moment. A remembered caller is never trusted alone: the statement that writes for it compares
 * the version of all rights (`identity.access_version`), and every other answer is confirmed by a new look-up. So a revoked key is refused
 * at once by every process, without a message between them.
 */
import { hash } from 'node:crypto'
import type { Principal } from '#kernel/actor'
import type { Decision } from '#kernel/refusal'
import { authorize, type PlatformRole } from './principal.ts'
import type { Workspace, WorkspaceSources } from './workspace.ts'

/** What one look-up found. */
export type Looked = {
  readonly principal: Principal
  readonly workspace: Decision<Workspace>
  /** Undefined for a token, which is not remembered. */
  readonly access: { readonly version: string; readonly leftMs: number } | undefined
  /** How long a token is still valid; its provider may end it earlier. */
  readonly tokenLeftMs?: number
}

type RememberedCaller = {
  readonly principal: Principal
  readonly workspace: Workspace
  /** For the statement that writes: the version of all rights at the time of the look-up. */
  readonly accessVersion: string
}

type Asked = { readonly bearer: string; readonly role: PlatformRole; readonly sources: WorkspaceSources }

export type Callers = {
  /** Returns a caller who had the role and could enter the workspace at most two seconds ago, and whose key has not expired. */
  recall(asked: Asked): RememberedCaller | undefined
  look(asked: Asked): Promise<Decision<Looked>>
}

const REMEMBER_MS = 2_000
const CALLERS_MAX = 1_000

export function openCallers(
  look: (bearer: string, sources: WorkspaceSources) => Promise<Decision<Looked>>,
  elapsedMs: () => number,
): Callers {
  const known = new Map<string, RememberedCaller & { readonly untilMs: number }>()
  // Holds hashes, so that no working credentials are kept in memory.
  const nameOf = ({ bearer, role, sources: { idHeader, slugHeader, idQuery } }: Asked) =>
    JSON.stringify([hash('sha256', bearer, 'base64'), role, idHeader, slugHeader, idQuery])
  return {
    recall(asked) {
      const found = known.get(nameOf(asked))
      return found && elapsedMs() < found.untilMs ? found : undefined
    },
    async look(asked) {
      // Counted from before the look-up, so that a key is forgotten before it expires.
      const fromMs = elapsedMs()
      const looked = await look(asked.bearer, asked.sources)
      const name = nameOf(asked)
      known.delete(name)
      if (!looked.ok) return looked
      const { principal, workspace, access } = looked.value
      // A refusal is not remembered.
      if (!access || !workspace.ok || !authorize(principal, asked.role).ok) return looked
      const [oldest] = known.keys()
      if (known.size >= CALLERS_MAX && oldest !== undefined) known.delete(oldest)
      const untilMs = fromMs + Math.min(REMEMBER_MS, access.leftMs)
      known.set(name, { principal, workspace: workspace.value, accessVersion: access.version, untilMs })
      return looked
    },
  }
}
