/** A program as an agent: its models are behind the proxy, its calls go to Concord, and nothing of it outlives its turn. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { until } from '#test/until'
import type { AgentCall, AgentTurn, ModelRequest } from '../agent-runtime.ts'
import type { DialectName } from './dialects.ts'
import { processRuntime, type ProcessRuntimeInput } from './process-runtime.ts'

const program = fileURLToPath(new URL('../../../../test/support/agent-program-child.ts', import.meta.url))
const usage = { inputTokens: 3, outputTokens: 2, cachedTokens: 0, reasoningTokens: 0 }
const look: AgentCall = { id: 'call_0_0', actionType: 'tool_call', toolName: 'look', payload: { n: 1 }, reason: '' }
const tools = [{ name: 'look', description: 'Looks.', input: { type: 'object' } }]

const open = (dialect: DialectName, mode = 'ask', more: Partial<ProcessRuntimeInput> = {}) =>
  processRuntime({ name: 'program', command: process.execPath, args: [program, dialect, mode], dialect, ...more })

/** Of this process alone: a cancel ends programs of the run on the whole machine. */
const sharedRunId = randomUUID()

const shell = (script: string, more: Partial<ProcessRuntimeInput> = {}) =>
  open('concord', '', { command: '/bin/sh', args: ['-c', script], ...more })

/** A process that has ended and that nobody has asked about has no environment. */
function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`).length > 0
  } catch {
    return false
  }
}

function aTurn(more: Partial<AgentTurn> = {}): AgentTurn {
  return {
    agentRunId: sharedRunId,
    turn: 0,
    goal: 'Look once.',
    context: {},
    messages: [],
    tools,
    isLast: false,
    modelConfig: { model: 'small', output_tokens_max: 100 },
    runtimeConfig: {},
    signal: new AbortController().signal,
    askModel: () => Promise.reject(new Error('The model was not expected.')),
    ...more,
  }
}

describe('a program as an agent', () => {
  after(() => open('concord').cancelAgentRun(sharedRunId, 'stopped'))

  for (const dialect of ['concord', 'claude', 'codex'] as const) {
    test(`${dialect}: its models are asked through the run, with the tools of the run, and its text is the result`, async () => {
      const asked: ModelRequest[] = []
      const askModel = (request: ModelRequest) => {
        asked.push(request)
        return Promise.resolve({ text: 'All is well.', calls: [], usage })
      }
      const answer = await open(dialect).startAgentRun(aTurn({ askModel }))
      assert.deepEqual(answer, { text: 'All is well.', calls: [], final: { text: 'All is well.' } })
      const [request] = asked
      assert.deepEqual([asked.length, request?.model, request?.tools], [1, 'small', tools])
      assert.equal(request?.outputTokensMax, dialect === 'claude' ? 50 : 100)
      assert.match(JSON.stringify(request?.messages), /Look once\./)
    })

    test(`${dialect}: a call of the model ends the program, and its outcome is in the next conversation`, async () => {
      const calling = () => Promise.resolve({ text: 'I look.', calls: [look], usage })
      const first = await open(dialect).startAgentRun(aTurn({ askModel: calling }))
      assert.deepEqual(first, { text: 'I look.', calls: [look], final: null })
      const asked: ModelRequest[] = []
      const askModel = (request: ModelRequest) => {
        asked.push(request)
        return Promise.resolve({ text: 'Seen.', calls: [], usage })
      }
      const observation = { callId: look.id, decision: 'rejected', content: { reason: 'Not today.' } } as const
      const said = { role: 'assistant', text: first.text, calls: first.calls } as const
      const messages = [said, { role: 'tool', observation }] as const
      const second = await open(dialect).resumeAgentRun(aTurn({ turn: 1, messages, askModel }), [observation])
      assert.deepEqual(second.final, { text: 'Seen.' })
      assert.match(JSON.stringify(asked[0]?.messages), /Not today\./)
    })
  }

  test('it sees the declared environment, the proxy, and nothing of ours', async () => {
    const { text } = await open('concord', 'environment', { env: { LANG: 'C' } }).startAgentRun(aTurn())
    assert.equal(
      text,
      'ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL CONCORD_AGENT_TURN HOME LANG OPENAI_API_KEY OPENAI_BASE_URL',
    )
    const home = shell(`read -r line; printf '{"type":"answer","text":"%s %s"}\\n' "$HOME" "$(pwd)"`)
    const [own = '', folder] = ((await home.startAgentRun(aTurn())).text ?? '').split(' ')
    assert.ok(own.includes(sharedRunId))
    assert.equal(own, folder)
  })

  test('a request without the token of the turn reaches no model', async () => {
    const { text } = await open('concord', 'steal').startAgentRun(aTurn())
    assert.equal(text, '401')
  })

  test('its own calls are data too, and in the last turn they are no result', async () => {
    const { calls, final } = await open('concord', 'calls').startAgentRun(aTurn())
    assert.deepEqual([calls.map(({ toolName, payload }) => [toolName, payload]), final], [[['look', { n: 2 }]], null])
    const last = await open('concord', 'calls').startAgentRun(aTurn({ isLast: true }))
    assert.deepEqual([last.calls.length, last.final], [1, null])
    const silent = await open('claude').startAgentRun(
      aTurn({ isLast: true, askModel: () => Promise.resolve({ text: ' ', calls: [look], usage }) }),
    )
    assert.deepEqual([silent.calls, silent.final], [[], null])
    const asked: ModelRequest[] = []
    const askModel = (request: ModelRequest) => {
      asked.push(request)
      return Promise.resolve({ text: 'Enough.', calls: [look], usage })
    }
    const ended = await open('claude').startAgentRun(aTurn({ isLast: true, askModel }))
    assert.deepEqual([asked[0]?.tools, ended.calls, ended.final], [[], [], { text: 'Enough.' }])
  })

  test('the error of a model ends the turn with that error', async () => {
    const error = new Error('The budget is exhausted.')
    await assert.rejects(open('codex').startAgentRun(aTurn({ askModel: () => Promise.reject(error) })), error)
  })

  test('a program that dies, says nothing useful or cannot be started is an error of the runtime', async () => {
    await assert.rejects(open('concord', 'die').startAgentRun(aTurn()), /ended \(code 3\)/)
    await assert.rejects(open('concord', 'garbage').startAgentRun(aTurn()), /not of the dialect concord/)
    await assert.rejects(
      open('concord', 'ask', { command: '/nowhere/at-all' }).startAgentRun(aTurn()),
      /ended \(code 127\)/,
    )
  })

  test('a cancel ends the program and its children, and so does the signal of the turn', async () => {
    const runtime = open('concord', 'hang', { env: { MARK: 'concord-hang' } })
    const count = () =>
      Number(
        execFileSync('/bin/sh', ['-c', 'grep -lz MARK=concord-hang /proc/[0-9]*/environ 2>/dev/null | wc -l || true']),
      )
    for (const end of ['cancel', 'signal'] as const) {
      const stop = new AbortController()
      const turn = runtime.startAgentRun(aTurn({ signal: stop.signal }))
      const ended = assert.rejects(turn, end === 'cancel' ? /ended \(SIGKILL\)/ : /aborted/)
      await until(() => count() >= 2, 'the program and its child')
      if (end === 'cancel') await runtime.cancelAgentRun(aTurn().agentRunId, 'human_cancelled')
      else stop.abort()
      await ended
      await until(() => count() === 0, 'the end of both')
    }
    await runtime.cancelAgentRun('unknown', 'stopped')
  })

  test('a signal that comes while the turn is prepared ends it too', async () => {
    const stop = new AbortController()
    const turn = open('concord', 'hang').startAgentRun(aTurn({ signal: stop.signal }))
    stop.abort()
    await assert.rejects(turn, /aborted/)
  })

  test('a last line without an end of line is read', async () => {
    const { text } = await shell(`read -r line; printf '{"type":"answer","text":"whole"}'`).startAgentRun(aTurn())
    assert.equal(text, 'whole')
  })

  test('a child that has left the group of the program ends with the turn, and with a cancel', async () => {
    const agentRunId = randomUUID()
    const left = await open('concord', 'leave').startAgentRun(aTurn({ agentRunId }))
    assert.match(left.text ?? '', /^\d+$/)
    assert.equal(isAlive(Number(left.text)), false)
    const [own, other] = [agentRunId, randomUUID()].map((id) =>
      spawn('/bin/sleep', ['1000'], { env: { CONCORD_AGENT_TURN: `${id}:1` }, stdio: 'ignore', detached: true }),
    )
    assert.ok(own?.pid !== undefined && other?.pid !== undefined)
    try {
      await until(() => isAlive(own.pid ?? 0) && isAlive(other.pid ?? 0), 'both')
      await open('concord').cancelAgentRun(agentRunId, 'stopped')
      assert.deepEqual([isAlive(own.pid), isAlive(other.pid)], [false, true])
    } finally {
      own.kill('SIGKILL')
      other.kill('SIGKILL')
    }
  })

  const said = `read -r line; echo x > kept; printf '{"type":"answer","text":"%s","calls":[%s]}\\n'`
  const inFolder = (calls: string) => shell(`${said} "$(/usr/bin/stat -c '%a %u' .) $(pwd)" '${calls}'`)

  test('a run has a folder of its own, which is there in its next turn and gone after its end', async () => {
    const [one, other] = [randomUUID(), randomUUID()]
    const calling = inFolder('{"tool":"look","payload":{}}')
    const first = await calling.startAgentRun(aTurn({ agentRunId: one }))
    const [mode, uid, path = ''] = (first.text ?? '').split(' ')
    assert.deepEqual([mode, uid], ['700', String(process.getuid?.())])
    assert.ok(existsSync(join(path, 'kept')))
    const foreign = await calling.startAgentRun(aTurn({ agentRunId: other }))
    assert.notEqual((foreign.text ?? '').split(' ')[2], path)
    const last = await inFolder('').startAgentRun(aTurn({ agentRunId: one, turn: 1 }))
    assert.ok(last.final)
    assert.equal((last.text ?? '').split(' ')[2], path)
    assert.equal(existsSync(path), false)
    await calling.cancelAgentRun(other, 'stopped')
    assert.equal(existsSync((foreign.text ?? '').split(' ')[2] ?? ''), false)
  })

  test('a folder that somebody else has made for the run is not used', async () => {
    const agentRunId = randomUUID()
    const path = join(tmpdir(), `concord-agent-${agentRunId}`)
    mkdirSync(path)
    chmodSync(path, 0o777)
    await assert.rejects(inFolder('').startAgentRun(aTurn({ agentRunId })), /belongs to somebody else/)
    rmdirSync(path)
  })

  test('a program with a user of its own cannot read the environment of the server', {
    skip: process.getuid?.() === 0 ? false : 'only root can start a program as another user',
  }, async () => {
    const spy = 'read -r line; if /bin/cat /proc/$PPID/environ >/dev/null 2>&1; then t=read; else t=refused; fi; '
    const say = `printf '{"type":"answer","text":"%s %s"}\\n' $t $(/usr/bin/id -u)`
    const spied = async (more: Partial<ProcessRuntimeInput>) => {
      const { text } = await shell(`${spy}${say}`, more).startAgentRun(aTurn({ agentRunId: randomUUID() }))
      return text
    }
    assert.equal(await spied({}), 'read 0')
    assert.equal(await spied({ uid: 65_534, gid: 65_534 }), 'refused 65534')
  })

  test('a declaration with a relative command, a secret, half of a user or an unknown dialect is refused', () => {
    for (const wrong of [
      { command: 'node' },
      { uid: 1000 },
      { gid: 1000 },
      { uid: 0, gid: 0 },
      { uid: 1.5, gid: 1 },
      { env: { OPENAI_API_KEY: 'x' } },
      { dialect: 'other' as DialectName },
    ])
      assert.throws(() => open('concord', 'ask', wrong), TypeError, JSON.stringify(wrong))
  })
})
