/**
 * An agent that is a program on this machine. Each turn starts it anew with the whole conversation and ends it: while a call waits for a
 * person, nothing runs. It sees the declared environment and nothing of ours; its models are behind the proxy of the turn.
 */
import { isAbsolute } from 'node:path'
import { openWatchedProcess } from '#domains/connectors'
import { hasSecretShape } from '#kernel/secret-shapes'
import { isSecretName } from '#kernel/secrets/secret-name'
import type { AgentAnswer, AgentRuntime, AgentTurn } from '../agent-runtime.ts'
import { killMarked, MARK, openRunFolder, removeRunFolder, type RunAs } from './contain.ts'
import { type DialectName, dialects } from './dialects.ts'
import { openModelProxy } from './model-proxy.ts'

export type ProcessRuntimeInput = {
  /** The name that agents give as their runtime. */
  readonly name: string
  /** An absolute path: there is no `PATH`. */
  readonly command: string
  /** Its arguments before those of its dialect. */
  readonly args?: readonly string[]
  /**
   * The user and the group that it runs as. Without them it has the rights of the server, and can read the environment of the server. The
   * server needs the right to change users.
   */
  readonly uid?: number
  readonly gid?: number
  /**
   * The whole environment, in addition to the addresses and the token of the model proxy. Nothing is inherited. Without `HOME` it is the
   * folder of the run, so that no credential of the server's user is found.
   */
  readonly env?: Readonly<Record<string, string>>
  /** `concord`: one line of JSON in, one out. `claude`: Claude Code. `codex`: Codex. The last two get the arguments that they need. */
  readonly dialect: DialectName
}

/** Throws where the declaration is wrong: a project with such a runtime does not start. */
export function processRuntime(input: ProcessRuntimeInput): AgentRuntime {
  const { name, command, uid, gid, env = {} } = input
  const no = (reason: string) => new TypeError(`The agent runtime ${name}: ${reason}`)
  if (!isAbsolute(command)) throw no('command must be an absolute path: there is no PATH.')
  const runAs = uid === undefined || gid === undefined ? undefined : { uid, gid }
  if (uid !== gid && !runAs) throw no('uid and gid are given together.')
  for (const id of [uid, gid])
    if (id !== undefined && !(Number.isSafeInteger(id) && id > 0)) throw no('uid and gid are numbers above 0.')
  if (!Object.hasOwn(dialects, input.dialect)) throw no(`there is no dialect ${input.dialect}.`)
  for (const [variable, value] of Object.entries(env))
    if (isSecretName(variable) || hasSecretShape(value))
      throw no(`${variable} looks like a secret. Models are asked through the proxy, which needs no key.`)
  const answer = async (turn: AgentTurn): Promise<AgentAnswer> => {
    const given = await runTurn(input, runAs, turn)
    if (given.final !== null) await removeRunFolder(turn.agentRunId)
    return given
  }
  return {
    name,
    startAgentRun: answer,
    // The observations are in the messages of the turn.
    resumeAgentRun: answer,
    // The signal of a turn ends its program. What is left on this machine ends here.
    async cancelAgentRun(agentRunId) {
      await killMarked(`${agentRunId}:`)
      await removeRunFolder(agentRunId)
    },
  }
}

async function runTurn(input: ProcessRuntimeInput, runAs: RunAs | undefined, turn: AgentTurn): Promise<AgentAnswer> {
  turn.signal.throwIfAborted()
  const cwd = await openRunFolder(turn.agentRunId, runAs)
  const { promise, resolve, reject } = Promise.withResolvers<AgentAnswer>()
  // It may end before anything waits for it.
  promise.catch(() => {})
  const proxy = await openModelProxy(turn, { onCalls: resolve, onError: reject })
  // Another turn of the run may begin on this machine before this one ends.
  const mark = `${turn.agentRunId}:${proxy.token.slice(0, 16)}`
  const dialect = dialects[input.dialect]
  const listen = dialect.listen(turn.turn)
  const { command, args = [] } = input
  const watched = { command, args: [...args, ...dialect.args(proxy.url)], cwd, ...(runAs && { runAs }) }
  const environment = { HOME: cwd, ...environmentOf(input, proxy), [MARK]: mark }
  const program = openWatchedProcess(watched, environment, 'The program', {
    onLine(line) {
      try {
        const heard = listen(line)
        if (heard.t === 'answer') resolve(turn.isLast ? asLast(heard.answer) : heard.answer)
        if (heard.t === 'failed') reject(new Error(`The program failed: ${heard.reason.slice(0, 200)}`))
      } catch {
        reject(new Error(`The program sent a line that is not of the dialect ${input.dialect}.`))
      }
    },
    onFailure: reject,
    onEnd: () => reject(program.failure ?? new Error('The program ended before it answered.')),
  })
  const abort = () => reject(turn.signal.reason)
  turn.signal.addEventListener('abort', abort, { once: true })
  // It may have come while the turn was prepared.
  if (turn.signal.aborted) abort()
  try {
    await program.start()
    // A program that ends before it has read its input is reported by its end.
    program.write(dialect.input(turn).trimEnd()).catch(() => {})
    program.endInput()
    return await promise
  } finally {
    turn.signal.removeEventListener('abort', abort)
    program.kill()
    await program.ended
    await killMarked(mark)
    await proxy.close()
  }
}

/** A program that still calls tools, or that says nothing, has no result. */
function asLast({ text, calls, final }: AgentAnswer): AgentAnswer {
  const said = final?.['text']
  const isSilent =
    final === null || (Object.keys(final).join() === 'text' && typeof said === 'string' && said.trim() === '')
  return { text, calls, final: calls.length > 0 || isSilent ? null : final }
}

/** The names that programs read. The token is of this turn alone. */
function environmentOf({ env }: ProcessRuntimeInput, { url, token }: { readonly url: string; readonly token: string }) {
  return {
    ...env,
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_KEY: token,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: token,
  }
}
