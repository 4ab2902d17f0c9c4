// The page: who answers which address, what is shown when something breaks, and nothing else.
import "./style.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Component, lazy, StrictMode, Suspense, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { Route, Switch } from "wouter";
import { Refused } from "./api/client";
import { Shell } from "./parts/Shell";
import { Empty } from "./parts/small";
import { startTheme } from "./parts/theme";
import { text } from "./text";

const Home = lazy(() => import("./pages/Home"));
const NewRun = lazy(() => import("./pages/NewRun"));
const Approvals = lazy(() => import("./pages/Approvals"));
const RunPage = lazy(() => import("./pages/RunPage"));
const VerifyPage = lazy(() => import("./pages/VerifyPage"));

const queries = new QueryClient({
  defaultOptions: { queries: { retry: (count, why) => (why instanceof Refused ? why.status === 503 && count < 10 : count < 2), refetchOnWindowFocus: true, staleTime: 500 } },
});

/** What broke in the page itself is said, and the rest of the page stays. */
class Boundary extends Component<{ children: ReactNode }, { why: Error | null }> {
  state = { why: null as Error | null };
  static getDerivedStateFromError(why: Error) {
    return { why };
  }
  render() {
    if (!this.state.why) return this.props.children;
    return (
      <Empty title={text.errors.fault}>
        <p className="said">{this.state.why.message}</p>
        <button className="button mt-3" onClick={() => location.reload()}>{text.link.reload}</button>
      </Empty>
    );
  }
}

startTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Boundary>
        <Shell>
          <Suspense fallback={<div className="p-6 text-dim" aria-busy="true">…</div>}>
            <Switch>
              <Route path="/"><Home /></Route>
              <Route path="/new"><NewRun /></Route>
              <Route path="/approvals"><Approvals /></Route>
              <Route path="/verify"><VerifyPage /></Route>
              <Route path="/run/:id/:view?">{({ id, view }) => <RunPage key={id} id={id} view={view ?? ""} />}</Route>
              <Route><Empty title={text.empty.page} /></Route>
            </Switch>
          </Suspense>
        </Shell>
      </Boundary>
    </QueryClientProvider>
  </StrictMode>,
);
