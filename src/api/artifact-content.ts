/** Hands out the content of an artifact as a file: checked, in parts where asked, and never as something that a browser would show or run. */
import { type ArtifactDeps, openContent, parseRange, type StoredArtifact, toArtifactView } from '#domains/artifacts'
import { answerProblem, type ApiContext } from './request-context.ts'

export async function answerContent(c: ApiContext, world: ArtifactDeps, artifact: StoredArtifact): Promise<Response> {
  const etag = `"${artifact.checksum}"`
  const opened = await openContent(world, artifact)
  if (!opened.ok) return answerProblem(c, opened)
  const { sizeBytes, isChecked, stream, close } = opened.value
  // Of what is checked while it passes there are no parts; the whole is a right answer to any range.
  const isHead = c.req.method === 'HEAD'
  const asked = isChecked && !isHead ? c.req.header('range') : undefined
  const isCurrent = c.req.header('if-range') === undefined || c.req.header('if-range') === etag
  const range = parseRange(isCurrent ? asked : undefined, sizeBytes)
  if (!range.ok) {
    await close()
    c.header('content-range', `bytes */${sizeBytes}`)
    return answerProblem(c, range)
  }
  const part = range.value
  const headers: Record<string, string> = {
    'content-type': artifact.content_type,
    'content-length': String(part ? part.end - part.start + 1 : sizeBytes),
    'content-disposition': disposition(toArtifactView(artifact).file_name),
    'content-security-policy': "default-src 'none'; sandbox",
    'accept-ranges': isChecked ? 'bytes' : 'none',
    etag,
    ...(part ? { 'content-range': `bytes ${part.start}-${part.end}/${sizeBytes}` } : {}),
  }
  if (isHead) {
    // Nobody will read it, so nobody would let go of it.
    await close()
    return new Response(null, { status: 200, headers })
  }
  return new Response(stream(part), { status: part ? 206 : 200, headers })
}

/** Both forms of RFC 6266: an old reader gets ASCII, a new one the real name. */
function disposition(name: string): string {
  const plain = name.replaceAll(/[^\w.-]/g, '_')
  const exact = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${exact}`
}
