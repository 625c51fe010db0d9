/**
 * A program that is an agent, for the process runtime: it reads its turn, asks the model through the proxy, and reports in the dialect of
 * its first argument. Its second argument makes it misbehave.
 */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'

const [dialect = 'concord', mode = 'ask'] = process.argv.slice(2)
const say = (line: object) => console.log(JSON.stringify(line))
const { OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_AUTH_TOKEN } = process.env

const input = await text(process.stdin)

async function post(url: string, headers: Record<string, string>, body: object): Promise<string> {
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  const said = await answer.text()
  if (!answer.ok) throw new Error(`${answer.status} ${said}`)
  return said
}

async function askChat(): Promise<string> {
  const said = await post(
    `${OPENAI_BASE_URL}/chat/completions`,
    { authorization: `Bearer ${OPENAI_API_KEY}` },
    // A tool of its own: the proxy offers only those of the run.
    {
      model: 'any',
      messages: [{ role: 'user', content: input }],
      tools: [{ type: 'function', function: { name: 'Bash' } }],
    },
  )
  const { choices } = JSON.parse(said) as { choices: { message: { content: string } }[] }
  return choices[0]?.message.content ?? ''
}

/** Its model is where its configuration says, not its environment. */
async function askResponses(): Promise<string> {
  const provider = process.argv.find((each) => each.startsWith('model_providers.concord='))
  const url = /base_url="([^"]+)"/.exec(provider ?? '')?.[1]
  const key = process.env[/env_key="([^"]+)"/.exec(provider ?? '')?.[1] ?? ''] ?? ''
  const message = { type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }
  const body = { model: 'any', stream: true, instructions: 'Be brief.', input: [message], tools: [{ name: 'shell' }] }
  const said = await post(`${url}/responses`, { authorization: `Bearer ${key}` }, body)
  return textIn(said)
}

/** The text of a stream whose events have a `delta`. */
function textIn(stream: string): string {
  return [...stream.matchAll(/^data: (.*)$/gm)]
    .map(([, data = '{}']) => (JSON.parse(data) as { delta?: string | { text?: string } }).delta)
    .map((delta) => (typeof delta === 'string' ? delta : (delta?.text ?? '')))
    .join('')
}

async function askBlocks(): Promise<string> {
  const body = {
    model: 'any',
    max_tokens: 50,
    stream: true,
    system: 'Be brief.',
    messages: [{ role: 'user', content: input }],
  }
  const said = await post(`${ANTHROPIC_BASE_URL}/v1/messages`, { 'x-api-key': ANTHROPIC_AUTH_TOKEN ?? '' }, body)
  return textIn(said)
}

const ask = { concord: askChat, claude: askBlocks, codex: askResponses }[dialect as 'concord']

function report(answer: string): void {
  if (dialect === 'claude') {
    say({ type: 'system', subtype: 'init', session_id: 's', tools: ['Bash'] })
    say({
      type: 'assistant',
      message: { role: 'assistant', content: [{ type: 'text', text: answer }] },
      session_id: 's',
    })
    say({ type: 'result', subtype: 'success', is_error: false, result: answer, session_id: 's', total_cost_usd: 0 })
  } else if (dialect === 'codex') {
    say({ type: 'thread.started', thread_id: 't' })
    say({ type: 'item.completed', item: { id: 'item_0', type: 'agent_message', text: answer } })
    say({ type: 'turn.completed', usage: { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 } })
  } else say({ type: 'answer', text: answer })
}

switch (mode) {
  case 'garbage':
    console.log('Welcome!')
    break
  case 'die':
    process.exit(3)
    break
  case 'environment':
    report(Object.keys(process.env).sort().join(' '))
    break
  case 'hang':
    // Its child must not outlive the turn either.
    spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
    setInterval(() => {}, 1_000)
    break
  case 'leave':
    // A child in a session of its own.
    report(
      String(spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore', detached: true }).pid),
    )
    break
  case 'calls':
    say({ type: 'answer', text: null, calls: [{ tool: 'look', payload: { n: 2 } }] })
    break
  case 'steal': {
    const answer = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer other' },
    })
    report(String(answer.status))
    break
  }
  case 'spy': {
    const found = Object.values(process.env).filter((value) => value?.startsWith('sk-'))
    report(`${await ask()} Keys of a provider: ${found.length}.`)
    break
  }
  case 'greedy': {
    const isLast = (JSON.parse(input) as { is_last: boolean }).is_last
    for (let asks = 1; asks < (isLast ? 1 : 1_000); asks += 1) await ask()
    report(await ask())
    break
  }
  default:
    report(await ask())
}
